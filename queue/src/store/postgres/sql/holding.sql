-- As lost.sql, for the jobs of one worker.
SELECT DISTINCT held.id, held.fence
FROM queue_claims AS c
CROSS JOIN unnest(c.job_ids) AS claimed(id)
CROSS JOIN LATERAL (
    SELECT j.id, j.fence FROM queue_jobs AS j
    WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS held
WHERE c.worker_id = $1
