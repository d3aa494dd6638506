-- Waits for whoever has the row locked: its own worker's heartbeat, or the look of a rescue at all rows, which is no reason
-- to pass it over.
SELECT id FROM queue_workers
WHERE id = $1 AND stopped_at IS NULL AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) = $2
  AND IS_FREE_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_', $1)) = 1
FOR UPDATE
