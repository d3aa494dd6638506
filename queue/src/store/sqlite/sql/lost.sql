-- The jobs of workers that are lost, stopped or unknown, by a skip scan over the workers that hold jobs.
WITH RECURSIVE holder (id) AS (
    SELECT (SELECT min(worker_id) FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id <> 0)
    UNION ALL
    SELECT (SELECT min(j.worker_id) FROM queue_jobs AS j INDEXED BY queue_jobs_held
            WHERE j.worker_id <> 0 AND j.worker_id > holder.id)
    FROM holder WHERE holder.id IS NOT NULL
)
SELECT j.id, j.worker_id
FROM holder CROSS JOIN queue_jobs AS j INDEXED BY queue_jobs_held ON j.worker_id = holder.id AND j.worker_id <> 0
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = holder.id AND w.stopped_at IS NULL)
LIMIT +$1
