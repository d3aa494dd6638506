INSERT INTO queue_heartbeats (worker_id, expires_at) VALUES ($1, UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND)
