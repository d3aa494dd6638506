-- Makes scheduled jobs ready.
UPDATE queue_jobs SET run_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
  AND worker_id = 0 AND run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
RETURNING id
