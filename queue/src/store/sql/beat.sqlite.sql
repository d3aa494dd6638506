-- One statement, because an idle worker sends hardly another.
UPDATE queue_workers
SET heartbeat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2 / 1000
WHERE id = $1 AND stopped_at IS NULL
RETURNING 1,
          (SELECT min(expires_at) * 1000 - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000
           FROM queue_workers WHERE stopped_at IS NULL AND id <> $1),
          EXISTS (SELECT 1 FROM json_each($3) AS served CROSS JOIN queue_jobs AS j INDEXED BY queue_jobs_waiting
                  WHERE j.worker_id = 0 AND j.kind = served.value),
          (SELECT nullif(json_group_array(json_array(j.id, j.lease)), '[]')
           FROM json_each($4) AS running CROSS JOIN queue_jobs AS j ON j.id = running.value
           WHERE +j.worker_id = $1 AND j.cancel_requested_at IS NOT NULL),
          NULL,
          NULL
