-- step: find
-- Locks the waiting jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id WHERE j.worker_id = 0
FOR UPDATE SKIP LOCKED

-- step: found
-- Sets another due time for waiting jobs. The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', run_at BIGINT PATH '$.run_at')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id
SET j.run_at = TIMESTAMPADD(MICROSECOND, b.run_at, '1970-01-01')
