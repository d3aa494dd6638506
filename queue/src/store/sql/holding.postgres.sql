SELECT DISTINCT j.id, j.lease
FROM queue_claims AS c JOIN queue_jobs AS j ON j.id = ANY (c.job_ids) AND j.worker_id = c.worker_id
WHERE c.worker_id = $1
