INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, expires_at)
VALUES ($1, $2, $3, $4, $5, UTC_TIMESTAMP(6) + INTERVAL $6 MICROSECOND)
