-- The places of the next due rows of one ask. No locks. (A single upper bound: with two, SQLite would read up to the
-- first and only filter by the second.)
SELECT priority, run_at * 1000 AS place, id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= min(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), $7 / 1000 - 1)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
  AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
ORDER BY run_at, id
LIMIT +$6
