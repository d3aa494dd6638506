-- Jobs by kind, queue and state.
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(since))
FROM (SELECT kind, queue, IF(worker_id <> 0, claimed_at, run_at) AS since,
             CASE WHEN worker_id <> 0 THEN 'running'
                 WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs) AS hot
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at))
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at))
FROM queue_dead GROUP BY kind, queue
