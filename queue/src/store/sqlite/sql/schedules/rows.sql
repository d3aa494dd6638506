-- Schedules as `plan` reads them. `busy`: with `overlap = skip`, the oldest job that waits or runs. It is the last one,
-- or one that somebody fired by hand after it. `watched`: a live worker knows the kind. $1: ids, $2: microseconds that
-- a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms, s.changed_at * 1000, s.paused_at * 1000,
       s.retired_at * 1000, s.next_at * 1000, s.last_at * 1000, s.last_job_id, s.error,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + $2,
       CASE WHEN s.overlap = 'skip' THEN
           coalesce((SELECT j.id FROM queue_jobs AS j WHERE j.id = s.last_job_id),
                    (SELECT t.job_id FROM queue_ticks AS t CROSS JOIN queue_jobs AS j ON j.id = t.job_id
                     WHERE t.schedule_id = s.id
                       AND t.tick_at >= coalesce((SELECT min(l.tick_at) FROM queue_ticks AS l
                                                  WHERE l.job_id = s.last_job_id), 0)
                     ORDER BY t.tick_at LIMIT 1))
       END,
       EXISTS (SELECT 1 FROM queue_schedulers AS o
               JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE s.kind IN (SELECT value FROM json_each(w.kinds)))
FROM queue_schedules AS s
WHERE s.id IN (SELECT value FROM json_each($1))
ORDER BY s.name
