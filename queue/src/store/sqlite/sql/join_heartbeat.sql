INSERT INTO queue_heartbeats (worker_id, heartbeat_at, expires_at)
SELECT $1, now, now + $2 / 1000 FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now)
