-- The jobs of workers that are lost, stopped or unknown, found through their claim records.
SELECT DISTINCT j.id, j.worker_id
FROM queue_claims AS c
STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE (SELECT COUNT(*) FROM queue_workers AS w FORCE INDEX (PRIMARY)
       WHERE w.id = c.worker_id AND w.stopped_at IS NULL) = 0
  AND j.worker_id = c.worker_id
LIMIT $1
