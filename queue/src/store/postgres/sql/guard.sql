-- Locks the job until the end of a transaction of its handler's: see complete.sql.
SELECT id FROM queue_jobs
WHERE id = $1 AND worker_id = $2 AND fence = $3
  AND enqueued_at = timestamptz 'epoch' + $4 * interval '1 microsecond'
FOR UPDATE
