-- Notes why schedules are silent: the clock was ahead, and their last tick is more than a minute away. $1: the error
UPDATE queue_schedules SET error = $1
WHERE last_at > UTC_TIMESTAMP(6) + INTERVAL 60 SECOND AND next_at > last_at AND NOT error <=> $1
