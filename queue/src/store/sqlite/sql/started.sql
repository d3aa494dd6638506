UPDATE queue_jobs
SET started_fence = fence, max_neighbours = d.value ->> 'max_neighbours'
FROM json_each($2) AS d
WHERE queue_jobs.id = d.value ->> 'id' AND +queue_jobs.worker_id = $1 AND queue_jobs.fence = d.value ->> 'fence'
RETURNING queue_jobs.id
