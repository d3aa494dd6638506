-- The paused queues, or one NULL, for a claim of several asks. No row if the worker has no valid lease.
SELECT p.queue
FROM queue_workers AS w
STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
LEFT JOIN queue_paused AS p ON TRUE
WHERE w.id = $1 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)
