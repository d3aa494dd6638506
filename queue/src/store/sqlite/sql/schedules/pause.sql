-- $1: ids
UPDATE queue_schedules
SET paused_at = coalesce(paused_at, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)), next_at = NULL
WHERE id IN (SELECT value FROM json_each($1))
