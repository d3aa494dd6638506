UPDATE queue_workers SET stopped_at = UTC_TIMESTAMP(6), heartbeat_at = UTC_TIMESTAMP(6)
WHERE id = $1 AND stopped_at IS NULL
