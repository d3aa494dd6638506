-- Notes why schedules are silent: the clock was ahead, and their last tick is more than a minute away. $1: the error
UPDATE queue_schedules SET error = $1
WHERE last_at > now() + interval '60 s' AND next_at > last_at AND error IS DISTINCT FROM $1
