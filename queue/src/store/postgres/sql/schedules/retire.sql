UPDATE queue_schedules SET retired_at = now(), next_at = NULL WHERE id = ANY ($1)
