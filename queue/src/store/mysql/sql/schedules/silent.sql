-- Names of schedules that are silent: the clock was ahead, and their last tick is more than a minute away
SELECT name FROM queue_schedules
WHERE last_at > UTC_TIMESTAMP(6) + INTERVAL 60 SECOND AND next_at > last_at
ORDER BY name LIMIT 20
