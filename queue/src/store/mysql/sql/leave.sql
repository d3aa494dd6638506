-- If both times are the same, the worker was well all the time (lock_lost.sql).
UPDATE queue_workers
SET stopped_at = UTC_TIMESTAMP(6), heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL $2 MICROSECOND
WHERE id = $1 AND stopped_at IS NULL
