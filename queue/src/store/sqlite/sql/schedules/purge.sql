-- step: each
-- Ticks are kept as long as their jobs: no job, no dead letter and no history is left of these.
-- $1: age in microseconds, $2: the most ticks
DELETE FROM queue_ticks
WHERE (schedule_id, tick_at) IN (
    SELECT o.schedule_id, o.tick_at FROM queue_ticks AS o
    WHERE o.tick_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
      AND o.at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
      AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = o.job_id)
    ORDER BY o.tick_at LIMIT +$2)

-- step: all
DELETE FROM queue_schedules
WHERE retired_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
  AND NOT EXISTS (SELECT 1 FROM queue_ticks AS t WHERE t.schedule_id = queue_schedules.id)
