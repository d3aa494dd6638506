-- The jobs of workers that are dead, gone or unknown, by what they claimed. (A limit, so that each job is looked up by its
-- key whatever the statistics say.)
SELECT DISTINCT held.id, c.worker_id
FROM queue_claims AS c
CROSS JOIN unnest(c.job_ids) AS claimed(id)
CROSS JOIN LATERAL (SELECT j.id FROM queue_jobs AS j WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS held
WHERE NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = c.worker_id AND w.stopped_at IS NULL)
LIMIT $1
