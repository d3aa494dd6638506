INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES ($1, $2, $3, $4, $5,
        coalesce(($7 + 999) / 1000, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ($6 + 999) / 1000))
