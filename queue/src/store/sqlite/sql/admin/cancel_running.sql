-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE queue_jobs SET cancel_requested_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
  AND worker_id <> 0 AND cancel_requested_at IS NULL
