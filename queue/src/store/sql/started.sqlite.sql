UPDATE queue_jobs
SET started = lease, beside = d.value ->> 'beside'
FROM json_each($2) AS d
WHERE queue_jobs.id = d.value ->> 'id' AND +queue_jobs.worker_id = $1 AND queue_jobs.lease = d.value ->> 'lease'
RETURNING queue_jobs.id
