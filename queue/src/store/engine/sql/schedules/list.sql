-- $1: after this name, $2: at most so many
SELECT id FROM queue_schedules WHERE name > $1 ORDER BY name LIMIT $2
