-- As lost.sql, for the jobs of one worker.
SELECT DISTINCT j.id, j.fence
FROM queue_claims AS c FORCE INDEX (queue_claims_worker)
STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE c.worker_id = $1 AND j.worker_id = $1
