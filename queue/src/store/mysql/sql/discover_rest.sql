-- The first waiting rows of several kinds.
SELECT kind, queue, priority, run_at, id, -1 AS ask
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE worker_id = 0 AND kind IN (/* places */)
ORDER BY kind, queue, priority, run_at, id
LIMIT $1
