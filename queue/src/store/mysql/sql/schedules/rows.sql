-- Schedules as `plan` reads them. `busy`: the job of the last tick waits or runs, and that matters. `watched`: a live
-- worker knows the kind. $1: ids, $2: microseconds that a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.changed_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.paused_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.retired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.next_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.last_at), s.last_job_id, s.error,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $2,
       s.overlap = 'skip' AND EXISTS (SELECT 1 FROM queue_jobs AS j FORCE INDEX (PRIMARY) WHERE j.id = s.last_job_id),
       EXISTS (SELECT 1 FROM queue_schedulers AS o
               JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE JSON_CONTAINS(w.kinds, JSON_QUOTE(s.kind)))
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
ORDER BY s.name
