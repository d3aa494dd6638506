-- As preview.sql, newest first. Times and ids are negated, so that the newest sorts first.
SELECT j.priority, -TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at) AS place, -1 - j.id AS id
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $2) = 0
ORDER BY j.run_at DESC, j.id DESC
LIMIT $4
