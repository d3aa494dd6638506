-- Cancels waiting jobs, first half (remove_waiting.sql is the second). The rows are locked.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, error)
SELECT j.id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       b.reason
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', reason TEXT CHARACTER SET utf8mb4 PATH '$.reason')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id
WHERE worker_id = 0
