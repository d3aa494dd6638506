SELECT EXISTS (SELECT 1 FROM queue_workers WHERE id = $1 AND stopped_at IS NULL),
       EXISTS (SELECT 1 FROM queue_workers
               WHERE stopped_at IS NULL AND expires_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AND id <> $1),
       j.id, j.lease
FROM (SELECT 1) AS always
LEFT JOIN queue_jobs AS j ON j.worker_id = $1 AND j.worker_id <> 0 AND j.cancel_requested_at IS NOT NULL
