-- As claim.sql, for one of several asks. claim_allowed.sql has checked the worker and the queues: a union that repeats
-- these conditions costs the server more than one extra statement.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $7),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $8 THEN j.args END, j.losses
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (j.run_at > TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND AND j.id > $5))
  AND j.run_at >= TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
ORDER BY j.run_at, j.id
LIMIT $6
FOR UPDATE SKIP LOCKED
