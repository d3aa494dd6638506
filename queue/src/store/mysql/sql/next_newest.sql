-- As next.sql, newest first.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $5),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $6 THEN j.args END, j.losses
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
ORDER BY j.run_at DESC, j.id DESC
LIMIT $4
FOR UPDATE SKIP LOCKED
