-- One statement, since an idle worker may send two a second in all.
WITH beat AS (
    UPDATE queue_workers SET heartbeat_at = now(), expires_at = now() + $2 * interval '1 microsecond'
    WHERE id = $1 AND stopped_at IS NULL
    RETURNING id
)
SELECT EXISTS (SELECT FROM beat),
       EXISTS (SELECT FROM queue_workers WHERE stopped_at IS NULL AND expires_at < now() AND id <> $1),
       j.id, j.lease
FROM (SELECT 1) AS always
LEFT JOIN queue_jobs AS j ON j.worker_id = $1 AND j.worker_id <> 0 AND j.cancel_requested_at IS NOT NULL
