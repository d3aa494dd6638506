-- Schedules as `plan` reads them. `busy`: with `overlap = skip`, the oldest job that waits or runs. It is the last one,
-- or one that somebody fired by hand after it. `watched`: a live worker knows the kind. $1: ids, $2: microseconds that
-- a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args::text, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms, s.changed_at, s.paused_at, s.retired_at, s.next_at,
       s.last_at, s.last_job_id, s.error, now() + $2 * interval '1 microsecond',
       CASE WHEN s.overlap = 'skip' THEN
           coalesce((SELECT j.id FROM queue_jobs AS j WHERE j.id = s.last_job_id),
                    (SELECT t.job_id FROM queue_ticks AS t JOIN queue_jobs AS j ON j.id = t.job_id
                     WHERE t.schedule_id = s.id
                       AND t.tick_at >= coalesce((SELECT min(l.tick_at) FROM queue_ticks AS l
                                                  WHERE l.job_id = s.last_job_id), timestamptz 'epoch')
                     ORDER BY t.tick_at LIMIT 1))
       END,
       EXISTS (SELECT FROM queue_schedulers AS o JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE s.kind IN (SELECT k FROM json_array_elements_text(w.kinds) AS k))::int
FROM queue_schedules AS s
WHERE s.id = ANY ($1)
ORDER BY s.name
