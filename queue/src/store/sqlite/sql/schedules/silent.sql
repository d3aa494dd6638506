-- Notes why schedules are silent: the clock was ahead, and their last tick is more than a minute away. $1: the error
UPDATE queue_schedules SET error = $1
WHERE last_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 60000 AND next_at > last_at
  AND error IS NOT $1
