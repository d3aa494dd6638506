-- A heartbeat in one statement: an idle worker sends hardly any other. It covers all workers, as few share a file.
UPDATE queue_heartbeats
SET heartbeat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2 / 1000
WHERE worker_id = $1 AND EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL)
RETURNING 1,
          EXISTS (SELECT 1 FROM json_each($3) AS served CROSS JOIN queue_jobs AS j INDEXED BY queue_jobs_waiting
                  WHERE j.worker_id = 0 AND j.kind = served.value),
          (SELECT nullif(json_group_array(json_array(j.id, j.fence)), '[]')
           FROM json_each($4) AS running CROSS JOIN queue_jobs AS j ON j.id = running.value
           WHERE +j.worker_id = $1 AND j.cancel_requested_at IS NOT NULL),
          NULL,
          (SELECT nullif(json_group_array(json_array(w.id, 0, 0, b.heartbeat_at * 1000, NULL, 0,
                                                     (b.expires_at
                                                         - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
                                                         * 1000,
                                                     (b.expires_at - b.heartbeat_at) * 1000)), '[]')
           FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
           WHERE w.stopped_at IS NULL AND w.id <> $1)
