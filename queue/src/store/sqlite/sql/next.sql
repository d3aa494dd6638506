-- The next due rows of one ask, for claim_many.sql. It ends with the first row of long arguments (more than 16 KiB).
SELECT id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
  AND (run_at, id) <= (
      SELECT run_at, id FROM (
          SELECT run_at, id FROM queue_jobs INDEXED BY queue_jobs_long
          WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384 AND kind = $1 AND queue = $2 AND priority = $3
            AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
          ORDER BY run_at, id LIMIT 1)
      UNION ALL SELECT 9223372036854775807, 0 ORDER BY 1 LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
ORDER BY run_at, id
LIMIT +$6
