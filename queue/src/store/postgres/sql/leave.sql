UPDATE queue_workers SET stopped_at = now(), heartbeat_at = now() WHERE id = $1 AND stopped_at IS NULL
