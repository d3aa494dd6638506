UPDATE queue_workers SET heartbeat_at = now, expires_at = now + $2 / 1000
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now)
WHERE id = $1 AND stopped_at IS NULL
