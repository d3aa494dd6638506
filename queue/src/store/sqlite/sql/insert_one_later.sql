-- The clock here is up to two milliseconds slow, by what it rounds off: a delay is that much longer, never shorter.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES ($1, $2, $3, $4, $5,
        coalesce(($7 + 999) / 1000,
                 CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + iif($6 > 0, ($6 + 2999) / 1000, 0)))
