-- Completes one job in a transaction of its handler's: a trigger deletes it from queue_jobs. The job's own time of
-- enqueue tells another database apart, which may have the same numbers.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, 'completed', j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, now - $5 / 1000, now, $6, NULL
FROM queue_jobs AS j
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE j.id = $1 AND +j.worker_id = $2 AND j.fence = $3 AND j.enqueued_at = $4 / 1000
