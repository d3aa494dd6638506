INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, started_at, heartbeat_at, expires_at)
SELECT $1, $2, $3, $4, $5, now, now, now + $6 / 1000 FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now)
