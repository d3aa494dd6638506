-- Not INSERT IGNORE, which would truncate an overlong name.
INSERT INTO queue_paused (queue) VALUES ($1) ON DUPLICATE KEY UPDATE paused_at = paused_at
