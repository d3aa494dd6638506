-- The lanes of one kind behind a given lane. The engine uses its skip scan ("Using index for group-by"), or walks over
-- the index if it expects few rows per lane. Both stop after $4 lanes. The skip scan needs a GROUP BY that starts with
-- the first column of the index.
SELECT kind, queue, priority, MIN(run_at) AS run_at
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE kind = $1 AND (queue > $2 OR (queue = $2 AND priority > $3))
GROUP BY kind, queue, priority
LIMIT $4
