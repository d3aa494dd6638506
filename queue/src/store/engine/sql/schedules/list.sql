-- $1: after this name, $2: the most rows
SELECT id FROM queue_schedules WHERE name > $1 ORDER BY name LIMIT $2
