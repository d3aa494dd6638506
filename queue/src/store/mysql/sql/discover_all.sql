-- One row per lane, for many lanes. The seventh column excludes a lane whose queue is paused or whose rows are all
-- held.
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), CAST(-9223372036854775808 AS SIGNED),
       p.queue IS NOT NULL
       OR (SELECT 1 FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
           WHERE j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority AND j.worker_id = 0 LIMIT 1) IS NULL,
       l.ask
FROM (/* lanes */) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
ORDER BY l.ask, l.queue, l.priority
