-- Schedules as `plan` reads them. `busy`: the job of the last tick waits or runs, and that matters. `watched`: a live
-- worker knows the kind. $1: ids, $2: microseconds that a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args::text, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms, s.changed_at, s.paused_at, s.retired_at, s.next_at,
       s.last_at, s.last_job_id, s.error, now() + $2 * interval '1 microsecond',
       (s.overlap = 'skip' AND EXISTS (SELECT FROM queue_jobs AS j WHERE j.id = s.last_job_id))::int,
       EXISTS (SELECT FROM queue_schedulers AS o JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE s.kind IN (SELECT k FROM json_array_elements_text(w.kinds) AS k))::int
FROM queue_schedules AS s
WHERE s.id = ANY ($1)
ORDER BY s.name
