-- $1: ids
UPDATE queue_schedules SET paused_at = coalesce(paused_at, now()), next_at = NULL WHERE id = ANY ($1)
