-- The schedules that are still due. $1: ids, $2: microseconds that a test is ahead of the clock
SELECT id FROM queue_schedules
WHERE id IN (SELECT value FROM json_each($1))
  AND next_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2 / 1000
