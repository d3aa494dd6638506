-- Names of schedules that are silent: the clock was ahead, and their last tick is more than a minute away
SELECT name FROM queue_schedules
WHERE last_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 60000 AND next_at > last_at
ORDER BY name LIMIT 20
