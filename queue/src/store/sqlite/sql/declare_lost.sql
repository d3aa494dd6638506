-- step: find
UPDATE queue_workers
SET stopped_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), heartbeat_at = $2 / 1000
WHERE id = $1 AND stopped_at IS NULL AND $3 = 1
  AND EXISTS (SELECT 1 FROM queue_heartbeats AS b
              WHERE b.worker_id = $1 AND b.heartbeat_at = $2 / 1000
                AND b.expires_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
RETURNING id

-- step: found
DELETE FROM queue_heartbeats WHERE worker_id IN (SELECT value FROM json_each($1))
