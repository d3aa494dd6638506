-- As preview.sql, newest first. Times and ids are negated, so that the newest sorts first.
SELECT priority, run_at * -1000 AS place, -1 - id AS id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
ORDER BY run_at DESC, queue_jobs.id DESC
LIMIT +$4
