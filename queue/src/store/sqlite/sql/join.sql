INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, started_at)
VALUES ($1, $2, $3, $4, $5, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
