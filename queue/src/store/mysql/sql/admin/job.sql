-- One job, from any table. One statement is one snapshot: a job that moves meanwhile is found exactly once.
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running'
            WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled'
            ELSE 'ready' END,
       priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(worker_id <> 0, claimed_at, NULL)),
           CAST(NULL AS SIGNED), NULLIF(worker_id, 0),
       cancel_requested_at IS NOT NULL,
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1),
       fence, args, CAST(NULL AS CHAR),
       (SELECT CONCAT(w.host, ':', w.pid) FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_jobs AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error, fence, args, result,
       (SELECT CONCAT(w.host, ':', w.pid) FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_history AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error, fence, args,
       CAST(NULL AS CHAR),
       (SELECT CONCAT(w.host, ':', w.pid) FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_dead AS j WHERE id = $1
