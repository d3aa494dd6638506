SELECT id FROM queue_history
WHERE finished_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
ORDER BY finished_at
LIMIT +$2
