INSERT INTO queue_workers (host, pid, concurrency, queues, kinds) VALUES ($1, $2, $3, $4, $5)
