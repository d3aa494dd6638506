-- Locks the schedule with a name. $1: name
SELECT id FROM queue_schedules WHERE name = $1 FOR UPDATE
