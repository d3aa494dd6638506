-- The jobs of workers that are dead, gone or unknown, by what they claimed.
SELECT DISTINCT j.id, j.worker_id
FROM queue_claims AS c JOIN queue_jobs AS j ON j.id = ANY (c.job_ids) AND j.worker_id = c.worker_id
WHERE NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = c.worker_id AND w.stopped_at IS NULL)
LIMIT $1
