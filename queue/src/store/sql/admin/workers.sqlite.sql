-- The worker processes with the number of jobs that each holds. Retention removes those that ended long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at * 1000,
       heartbeat_at * 1000,
       stopped_at * 1000,
       stopped_at IS NULL AND expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
       (SELECT count(*) FROM queue_jobs AS j WHERE j.worker_id = w.id AND j.worker_id <> 0)
FROM queue_workers AS w
ORDER BY id
