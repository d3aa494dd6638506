-- Jobs by kind, queue and state.
SELECT kind, queue, state, count(*), least(greatest(min(since), '0001-01-01Z'), '9999-12-31Z')
FROM (SELECT kind, queue, CASE WHEN worker_id = 0 THEN run_at ELSE coalesce(claimed_at, run_at) END AS since,
             CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs) AS jobs
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, state, count(*), min(finished_at)
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', count(*), min(finished_at)
FROM queue_dead GROUP BY kind, queue
