-- Jobs by kind, queue and state, and how many of them are retrying.
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(since)),
       COUNT(CASE WHEN retrying THEN 1 END)
FROM (SELECT kind, queue, IF(worker_id <> 0, claimed_at, run_at) AS since,
             CASE WHEN worker_id <> 0 THEN 'running'
                 WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state,
             worker_id = 0 AND fence > 0
             AND (SELECT a.outcome FROM queue_attempts AS a
                  WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                  ORDER BY a.fence DESC LIMIT 1)
                 IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') AS retrying
      FROM queue_jobs AS j) AS hot
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at)), 0
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at)), 0
FROM queue_dead GROUP BY kind, queue
