-- Waiting rows of one kind behind a given lane. With several kinds in one condition, each would be read from its start.
SELECT kind, queue, priority, run_at, id
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE worker_id = 0 AND kind = $1 AND (queue > $2 OR (queue = $2 AND priority > $3))
ORDER BY queue, priority, run_at, id
LIMIT $4
