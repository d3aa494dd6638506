-- What removes finished jobs.

-- name: over
SELECT id FROM queue_history
WHERE finished_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
ORDER BY finished_at
LIMIT +$2

-- name: purge
-- step: all
DELETE FROM queue_history WHERE id IN (SELECT value FROM json_each($1))

-- step: all
DELETE FROM queue_attempts WHERE job_id IN (SELECT value FROM json_each($1))
