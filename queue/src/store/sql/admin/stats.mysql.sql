-- Jobs by kind, queue and state. The waiting ones, of which there may be millions, are counted apart: the claim index holds
-- all that this needs.
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(run_at))
FROM (SELECT kind, queue, run_at,
             CASE WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs WHERE worker_id = 0) AS waiting
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'running', COUNT(*),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(COALESCE(claimed_at, run_at)))
FROM queue_jobs WHERE worker_id <> 0 GROUP BY kind, queue
UNION ALL
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at))
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at))
FROM queue_dead GROUP BY kind, queue
