-- step: each
-- Ticks are kept as long as their jobs: no job, no dead letter and no history is left of these.
-- $1: age in microseconds, $2: the most ticks
DELETE t FROM (
    SELECT o.schedule_id, o.tick_at FROM queue_ticks AS o FORCE INDEX (queue_ticks_tick)
    WHERE o.tick_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND AND o.at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
      AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = o.job_id)
    ORDER BY o.tick_at LIMIT $2) AS d
STRAIGHT_JOIN queue_ticks AS t FORCE INDEX (PRIMARY) ON t.schedule_id = d.schedule_id AND t.tick_at = d.tick_at

-- step: all
DELETE s FROM queue_schedules AS s
WHERE s.retired_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
  AND NOT EXISTS (SELECT 1 FROM queue_ticks AS t WHERE t.schedule_id = s.id)
