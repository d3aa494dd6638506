-- A skip scan over the workers that hold jobs; the jobs of those that are dead, gone or unknown.
SELECT j.id, j.worker_id
FROM (SELECT worker_id FROM queue_jobs FORCE INDEX (queue_jobs_waiting) WHERE worker_id > 0 GROUP BY worker_id) AS holder
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (queue_jobs_waiting) ON j.worker_id = holder.worker_id
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = holder.worker_id AND w.stopped_at IS NULL)
LIMIT $1
