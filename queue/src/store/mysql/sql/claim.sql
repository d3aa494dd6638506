-- Locks the next due rows of one ask, and no other rows. The fence wraps and the attempt is capped: a row edited to the
-- maximum must not fail the claim of other rows.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $8),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $9 THEN j.args END, j.losses
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $2 AND j.queue = $3 AND j.priority = $4 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (j.run_at > TIMESTAMP('1970-01-01') + INTERVAL $5 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $5 MICROSECOND AND j.id > $6))
  AND j.run_at >= TIMESTAMP('1970-01-01') + INTERVAL $5 MICROSECOND
  AND (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
       WHERE w.id = $1 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)) = 1
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $3) = 0
ORDER BY j.run_at, j.id
LIMIT $7
FOR UPDATE SKIP LOCKED
