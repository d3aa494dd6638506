-- While it was paused, nothing was missed. $1: ids
UPDATE queue_schedules
SET paused_at = NULL, changed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), next_at = 0
WHERE id IN (SELECT value FROM json_each($1)) AND paused_at IS NOT NULL
