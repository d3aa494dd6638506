-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
-- The first half (remove_dead.sql is the second). The rows are locked.
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at)
SELECT j.id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, UTC_TIMESTAMP(6)
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id
