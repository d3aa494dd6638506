INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, expires_at)
VALUES ($1, $2, $3, $4::json, $5::json, now() + $6 * interval '1 microsecond')
RETURNING id
