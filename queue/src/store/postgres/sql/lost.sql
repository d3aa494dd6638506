-- The jobs of workers that are lost, stopped or unknown, found through their claim records. (LIMIT 1 keeps each job a
-- lookup by key, whatever the statistics say.)
SELECT DISTINCT held.id, c.worker_id
FROM queue_claims AS c
CROSS JOIN unnest(c.job_ids) AS claimed(id)
CROSS JOIN LATERAL (SELECT j.id FROM queue_jobs AS j
    WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS held
WHERE c.worker_id NOT IN (SELECT id FROM queue_workers WHERE stopped_at IS NULL)
LIMIT $1
