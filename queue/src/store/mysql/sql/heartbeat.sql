UPDATE queue_heartbeats SET heartbeat_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND,
                            server_run = $8, next_heartbeat_at = UTC_TIMESTAMP(6) + INTERVAL $9 MICROSECOND
WHERE worker_id = $1 AND (SELECT COUNT(*) FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL) = 1
