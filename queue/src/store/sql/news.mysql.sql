SELECT EXISTS (SELECT 1 FROM queue_workers WHERE id = $1 AND stopped_at IS NULL),
       (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), MIN(expires_at))
        FROM queue_workers WHERE stopped_at IS NULL AND id <> $1),
       FALSE,
       (SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(id, lease)) AS CHAR) FROM queue_jobs
        WHERE worker_id = $1 AND worker_id <> 0 AND cancel_requested_at IS NOT NULL)
