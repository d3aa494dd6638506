-- If both times are the same, the worker was well all the time (lock_lost.sql).
UPDATE queue_workers
SET stopped_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    heartbeat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2 / 1000
WHERE id = $1 AND stopped_at IS NULL
