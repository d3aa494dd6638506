-- While it was paused, nothing was missed. $1: ids
UPDATE queue_schedules SET paused_at = NULL, changed_at = now(), next_at = timestamptz 'epoch'
WHERE id = ANY ($1) AND paused_at IS NOT NULL
