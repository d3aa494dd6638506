DELETE FROM queue_workers WHERE stopped_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
