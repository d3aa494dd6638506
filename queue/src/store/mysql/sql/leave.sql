-- The worker is alive and leaves by itself: its last heartbeat is this moment. Its jobs are under no suspicion.
UPDATE queue_workers SET stopped_at = UTC_TIMESTAMP(6), heartbeat_at = UTC_TIMESTAMP(6)
WHERE id = $1 AND stopped_at IS NULL
