UPDATE queue_workers SET heartbeat_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND,
                         server_run = $8, next_heartbeat_at = UTC_TIMESTAMP(6) + INTERVAL $9 MICROSECOND
WHERE id = $1 AND stopped_at IS NULL
