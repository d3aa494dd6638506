-- Rounding makes this clock up to 2 ms slow. A delay is lengthened by that, so it is never too short.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES ($1, $2, $3, $4, $5,
        coalesce(($7 + 999) / 1000,
                 CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + iif($6 > 0, ($6 + 2999) / 1000, 0)))
