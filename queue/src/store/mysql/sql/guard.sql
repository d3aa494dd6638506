-- Locks the job until the end of a transaction of its handler's: see complete.sql.
SELECT j.id FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.id = $1 AND j.worker_id = $2 AND j.fence = $3
  AND j.enqueued_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
FOR UPDATE
