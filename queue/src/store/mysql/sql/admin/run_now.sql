-- step: find
-- Locks the scheduled jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
    WHERE j.worker_id = 0 AND j.run_at > UTC_TIMESTAMP(6)
FOR UPDATE SKIP LOCKED

-- step: found
-- Makes scheduled jobs ready. The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.run_at = UTC_TIMESTAMP(6)
