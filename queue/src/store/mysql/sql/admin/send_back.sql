-- step: find
-- Locks the dead letters among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id, j.features FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
-- The next step removes them. The rows are locked.
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at)
SELECT j.id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, UTC_TIMESTAMP(6)
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- step: found
-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id
