-- The engines' own skip scan ("Using index for group-by"), when they choose it: one probe per lane, foreign kinds are not visited.
-- They choose it only when the group names the index from its first column on. (What follows is no EXISTS, which they may turn
-- into a walk over all rows.)
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), CAST(-9223372036854775808 AS SIGNED)
FROM (
    SELECT kind, queue, priority, MIN(run_at) AS run_at FROM queue_jobs FORCE INDEX (queue_jobs_order)
    WHERE kind IN (/* kinds */)
    GROUP BY kind, queue, priority
) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
WHERE p.queue IS NULL
  AND (SELECT 1 FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
       WHERE j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority AND j.worker_id = 0 LIMIT 1) IS NOT NULL
