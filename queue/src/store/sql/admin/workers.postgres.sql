-- The worker processes with the number of jobs that each holds. Retention removes those that ended long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at,
       heartbeat_at,
       stopped_at,
       stopped_at IS NULL AND expires_at > now(),
       (SELECT count(*) FROM queue_jobs AS j WHERE j.worker_id = w.id AND j.worker_id <> 0)
FROM queue_workers AS w
ORDER BY id
