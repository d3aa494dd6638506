UPDATE queue_workers SET stopped_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE stopped_at IS NULL AND expires_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
