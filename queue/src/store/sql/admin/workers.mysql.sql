-- The worker processes with the number of jobs that each holds. Retention removes those that ended long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', stopped_at),
       stopped_at IS NULL AND expires_at > UTC_TIMESTAMP(6),
       (SELECT COUNT(*) FROM queue_jobs AS j WHERE j.worker_id = w.id)
FROM queue_workers AS w
ORDER BY id
