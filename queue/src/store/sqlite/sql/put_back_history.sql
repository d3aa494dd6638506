-- Ends jobs as cancelled, instead of returning them, if cancellation was requested meanwhile.
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'ran_us' AS ran_us, value ->> 'uncount' AS uncount, value ->> 'record' AS record
    FROM json_each($2)
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt - d.uncount,
       j.fence, j.worker_id, j.enqueued_at, j.run_at, CASE WHEN d.record THEN now - d.ran_us / 1000 END, now,
       'cancelled on request'
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NOT NULL
RETURNING id
