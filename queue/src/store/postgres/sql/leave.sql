-- If both times are the same, the worker was well all the time (lock_lost.sql).
UPDATE queue_workers SET stopped_at = now(), heartbeat_at = now() - $2 * interval '1 microsecond'
WHERE id = $1 AND stopped_at IS NULL
