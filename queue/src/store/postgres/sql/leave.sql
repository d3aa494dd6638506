-- The worker is alive and leaves by itself: its last heartbeat is this moment. Its jobs are under no suspicion.
UPDATE queue_workers SET stopped_at = now(), heartbeat_at = now() WHERE id = $1 AND stopped_at IS NULL
