-- Not INSERT IGNORE, which would cut a name that is too long.
INSERT INTO queue_paused (queue) VALUES ($1) ON DUPLICATE KEY UPDATE paused_at = paused_at
