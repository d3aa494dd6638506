INSERT INTO queue_jobs (kind, queue, priority, max_retries, args) VALUES ($1, $2, $3, $4, $5)
