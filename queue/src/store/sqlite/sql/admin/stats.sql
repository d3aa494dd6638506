-- Jobs by kind, queue and state, and how many of them are retrying.
SELECT kind, queue, state, count(*), max(-62135596800000, min(min(run_at), 253402214400000)) * 1000,
       count(CASE WHEN retrying THEN 1 END)
FROM (SELECT kind, queue, run_at,
             CASE WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
                  ELSE 'ready' END AS state,
             fence > 0
             AND (SELECT a.outcome FROM queue_attempts AS a
                  WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                  ORDER BY a.fence DESC LIMIT 1)
                 IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') AS retrying
      FROM queue_jobs AS j WHERE worker_id = 0) AS waiting
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'running', count(*),
       max(-62135596800000, min(min(coalesce(claimed_at, run_at)), 253402214400000)) * 1000, 0
FROM queue_jobs WHERE worker_id <> 0 GROUP BY kind, queue
UNION ALL
SELECT kind, queue, state, count(*), min(finished_at) * 1000, 0
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', count(*), min(finished_at) * 1000, 0
FROM queue_dead GROUP BY kind, queue
