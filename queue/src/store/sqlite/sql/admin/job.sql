-- One job, from any table. One statement is one snapshot: a job that moves meanwhile is found exactly once.
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running'
            WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
            ELSE 'ready' END,
       priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, nullif(worker_id, 0),
       cancel_requested_at IS NOT NULL,
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1),
       fence, args, NULL,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_jobs AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error, fence, args, result,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_history AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error, fence, args, NULL,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_dead AS j WHERE id = $1
