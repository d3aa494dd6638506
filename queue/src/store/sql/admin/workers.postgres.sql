-- The worker processes with the number of jobs that each holds. Retention removes those that ended long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at,
       heartbeat_at,
       stopped_at,
       stopped_at IS NULL AND expires_at > now(),
       (SELECT count(DISTINCT j.id)
        FROM queue_claims AS c JOIN queue_jobs AS j ON j.id = ANY (c.job_ids) AND j.worker_id = c.worker_id
        WHERE c.worker_id = w.id)
FROM queue_workers AS w
ORDER BY id
