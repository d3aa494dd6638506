-- Worker processes, each with the number of jobs that it holds. Retention removes workers that stopped long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at * 1000,
       coalesce(b.heartbeat_at, w.heartbeat_at, started_at) * 1000,
       stopped_at * 1000,
       coalesce(b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), FALSE),
       (SELECT count(*) FROM queue_jobs AS j WHERE j.worker_id = w.id AND j.worker_id <> 0)
FROM queue_workers AS w
LEFT JOIN queue_heartbeats AS b ON b.worker_id = w.id AND w.stopped_at IS NULL
ORDER BY id
