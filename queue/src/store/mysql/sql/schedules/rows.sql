-- Schedules as `plan` reads them. `busy`: with `overlap = skip`, the oldest job that waits or runs. It is the last one,
-- or one that somebody fired by hand after it. `watched`: a live worker knows the kind. $1: ids, $2: microseconds that
-- a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.changed_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.paused_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.retired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.next_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.last_at), s.last_job_id, s.error,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $2,
       CASE WHEN s.overlap = 'skip' THEN
           COALESCE((SELECT j.id FROM queue_jobs AS j FORCE INDEX (PRIMARY) WHERE j.id = s.last_job_id),
                    (SELECT t.job_id FROM queue_ticks AS t FORCE INDEX (PRIMARY)
                     STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = t.job_id
                     WHERE t.schedule_id = s.id
                       AND t.tick_at >= COALESCE((SELECT MIN(l.tick_at) FROM queue_ticks AS l
                                                  WHERE l.job_id = s.last_job_id), '1970-01-01')
                     ORDER BY t.tick_at LIMIT 1))
       END,
       EXISTS (SELECT 1 FROM queue_schedulers AS o
               JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE JSON_CONTAINS(w.kinds, JSON_QUOTE(s.kind)))
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
ORDER BY s.name
