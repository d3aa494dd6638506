-- The worker is alive and leaves by itself: its last heartbeat is this moment. Its jobs are under no suspicion.
UPDATE queue_workers
SET stopped_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    heartbeat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id = $1 AND stopped_at IS NULL
