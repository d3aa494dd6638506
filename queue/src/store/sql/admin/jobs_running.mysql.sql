-- A page of the running jobs. They are few: the index has them behind the waiting rows, and sorting them is cheap.
SELECT id, kind, queue, 'running', priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(worker_id <> 0, claimed_at, NULL)), CAST(NULL AS SIGNED), worker_id,
       cancel_requested_at IS NOT NULL, CAST(NULL AS CHAR)
FROM queue_jobs FORCE INDEX (queue_jobs_waiting)
WHERE worker_id > 0 AND id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
ORDER BY id LIMIT $4
