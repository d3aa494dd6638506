-- A skip scan over the workers that hold jobs; the jobs of those that are dead, gone or unknown.
WITH RECURSIVE holder AS (
    SELECT min(worker_id) AS id FROM queue_jobs WHERE worker_id <> 0
    UNION ALL
    SELECT (SELECT min(j.worker_id) FROM queue_jobs AS j WHERE j.worker_id <> 0 AND j.worker_id > holder.id)
    FROM holder WHERE holder.id IS NOT NULL
)
SELECT j.id, j.worker_id
FROM holder
CROSS JOIN LATERAL (
    SELECT j.id, j.worker_id FROM queue_jobs AS j WHERE j.worker_id <> 0 AND j.worker_id = holder.id LIMIT $1
) AS j
WHERE holder.id IS NOT NULL
  AND NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = holder.id AND w.stopped_at IS NULL)
LIMIT $1
