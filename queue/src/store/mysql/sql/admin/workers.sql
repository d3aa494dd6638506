-- Worker processes, each with the number of jobs that it holds. Retention removes workers that stopped long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', COALESCE(b.heartbeat_at, worker.heartbeat_at, started_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', stopped_at),
       COALESCE(b.expires_at > UTC_TIMESTAMP(6), FALSE),
       (SELECT COUNT(DISTINCT j.id)
        FROM queue_claims AS c FORCE INDEX (queue_claims_worker)
        STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
        STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
        WHERE c.worker_id = worker.id AND j.worker_id = worker.id)
FROM queue_workers AS worker
LEFT JOIN queue_heartbeats AS b ON b.worker_id = worker.id AND worker.stopped_at IS NULL
ORDER BY id
