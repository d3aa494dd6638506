-- One job, from any table. One statement is one snapshot: a job that moves meanwhile is found exactly once.
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END,
       priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, nullif(worker_id, 0),
       cancel_requested_at IS NOT NULL,
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1),
       fence, args, NULL::json,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_jobs AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error, fence, args, result,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_history AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error, fence, args, NULL::json,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id)
FROM queue_dead AS j WHERE id = $1
