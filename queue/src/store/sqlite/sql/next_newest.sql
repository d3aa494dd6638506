-- As next.sql, newest first.
SELECT id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  AND (run_at, id) >= (
      SELECT run_at, id FROM (
          SELECT run_at, id FROM queue_jobs INDEXED BY queue_jobs_long
          WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384 AND kind = $1 AND queue = $2 AND priority = $3
            AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
          ORDER BY run_at DESC, id DESC LIMIT 1)
      UNION ALL SELECT -9223372036854775808, 0 ORDER BY 1 DESC LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
ORDER BY run_at DESC, id DESC
LIMIT +$4
