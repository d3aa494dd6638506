-- Worker processes, each with the number of jobs that it holds. Retention removes workers that stopped long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at,
       coalesce(b.heartbeat_at, w.heartbeat_at, started_at),
       stopped_at,
       coalesce(b.expires_at > now(), FALSE),
       (SELECT count(DISTINCT j.id)
        FROM queue_claims AS c JOIN queue_jobs AS j ON j.id = ANY (c.job_ids) AND j.worker_id = c.worker_id
        WHERE c.worker_id = w.id)
FROM queue_workers AS w
LEFT JOIN LATERAL (SELECT heartbeat_at, expires_at FROM queue_heartbeats
                   WHERE worker_id = w.id AND w.stopped_at IS NULL ORDER BY heartbeat_at DESC LIMIT 1) AS b ON TRUE
ORDER BY id
