-- The lanes of one kind behind another. The engine takes its own skip scan ("Using index for group-by"), or walks over
-- the index where it sees few rows in each lane. Both end after $4 lanes. The skip scan is chosen only when the group
-- names the index from its first column on.
SELECT kind, queue, priority, MIN(run_at) AS run_at
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE kind = $1 AND (queue > $2 OR (queue = $2 AND priority > $3))
GROUP BY kind, queue, priority
LIMIT $4
