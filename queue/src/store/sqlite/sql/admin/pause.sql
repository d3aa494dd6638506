INSERT INTO queue_paused (queue, paused_at) VALUES ($1, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
ON CONFLICT DO NOTHING
