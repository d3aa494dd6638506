-- step: each
-- Ticks are kept as long as their jobs: no job, no dead letter and no history is left of these.
-- $1: age in microseconds, $2: the most ticks
DELETE FROM queue_ticks AS t
USING (SELECT o.schedule_id, o.tick_at FROM queue_ticks AS o
       WHERE o.tick_at < now() - $1 * interval '1 microsecond' AND o.at < now() - $1 * interval '1 microsecond'
         AND NOT EXISTS (SELECT FROM queue_jobs AS j WHERE j.id = o.job_id)
         AND NOT EXISTS (SELECT FROM queue_dead AS j WHERE j.id = o.job_id)
         AND NOT EXISTS (SELECT FROM queue_history AS j WHERE j.id = o.job_id)
       ORDER BY o.tick_at LIMIT $2) AS d
WHERE t.schedule_id = d.schedule_id AND t.tick_at = d.tick_at

-- step: all
DELETE FROM queue_schedules AS s
WHERE s.retired_at < now() - $1 * interval '1 microsecond'
  AND NOT EXISTS (SELECT FROM queue_ticks AS t WHERE t.schedule_id = s.id)
