-- $1: name
SELECT id FROM queue_schedules WHERE name = $1
