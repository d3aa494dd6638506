-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE queue_jobs SET cancel_requested_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
  AND worker_id <> 0 AND cancel_requested_at IS NULL
