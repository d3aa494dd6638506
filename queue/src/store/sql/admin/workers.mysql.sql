-- The worker processes with the number of jobs that each holds. Retention removes those that ended long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', stopped_at),
       stopped_at IS NULL AND expires_at > UTC_TIMESTAMP(6),
       (SELECT COUNT(DISTINCT j.id)
        FROM queue_claims AS c FORCE INDEX (queue_claims_worker)
        STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
        STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
        WHERE c.worker_id = worker.id AND j.worker_id = worker.id)
FROM queue_workers AS worker
ORDER BY id
