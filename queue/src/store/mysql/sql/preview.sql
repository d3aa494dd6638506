-- The places of the next due rows of one ask. No locks.
SELECT j.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at) AS place, j.id
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $2) = 0
  AND (j.run_at > TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND AND j.id > $5))
  AND j.run_at >= TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
  AND (j.run_at < TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND AND j.id < $8))
  AND j.run_at <= TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND
ORDER BY j.run_at, j.id
LIMIT $6
