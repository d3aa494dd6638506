-- Jobs by kind, queue and state, and how many of them are retrying.
SELECT kind, queue, state, count(*), least(greatest(min(since), '0001-01-01Z'), '9999-12-31Z'),
       count(*) FILTER (WHERE retrying)
FROM (SELECT kind, queue, CASE WHEN worker_id = 0 THEN run_at ELSE coalesce(claimed_at, run_at) END AS since,
             CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state,
             worker_id = 0 AND fence > 0
             AND (SELECT a.outcome FROM queue_attempts AS a
                  WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                  ORDER BY a.fence DESC LIMIT 1)
                 IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') AS retrying
      FROM queue_jobs AS j) AS jobs
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, state, count(*), min(finished_at), 0
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', count(*), min(finished_at), 0
FROM queue_dead GROUP BY kind, queue
