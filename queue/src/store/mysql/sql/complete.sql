-- step: sure
-- As the next step, but it finds nothing unless the server says that there is a transaction. Only MariaDB can tell. MySQL
-- reads a comment, and always finds nothing.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, 'completed', j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL $5 MICROSECOND, UTC_TIMESTAMP(6), $6, NULL
FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.id = $1 AND j.worker_id = $2 AND j.fence = $3
  AND j.enqueued_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
  AND (FALSE /*M! OR @@in_transaction = 1 */)
FOR UPDATE

-- step: each
-- Completes one job in a transaction of its handler's. It locks that row and no gap, whatever the isolation level. The
-- job's own time of enqueue tells another database apart, which may have the same numbers.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, 'completed', j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL $5 MICROSECOND, UTC_TIMESTAMP(6), $6, NULL
FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.id = $1 AND j.worker_id = $2 AND j.fence = $3
  AND j.enqueued_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
FOR UPDATE

-- step: all
DELETE FROM queue_jobs WHERE id = $1 AND worker_id = $2 AND fence = $3
