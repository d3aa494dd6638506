-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.cancel_requested_at = UTC_TIMESTAMP(6)
WHERE j.worker_id <> 0 AND j.cancel_requested_at IS NULL
