-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
-- The first half (remove_dead.sql is the second).
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at)
SELECT id, kind, queue, args, priority, features, max_retries, enqueued_at, fence,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
