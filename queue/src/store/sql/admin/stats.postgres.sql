-- Jobs by kind, queue and state. The waiting ones, of which there may be millions, are counted apart: the claim index holds
-- all that this needs.
SELECT kind, queue, state, count(*), least(greatest(min(run_at), '0001-01-01Z'), '9999-12-31Z')
FROM (SELECT kind, queue, run_at,
             CASE WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs WHERE worker_id = 0) AS waiting
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'running', count(*),
       least(greatest(min(coalesce(claimed_at, run_at)), '0001-01-01Z'), '9999-12-31Z')
FROM queue_jobs WHERE worker_id <> 0 GROUP BY kind, queue
UNION ALL
SELECT kind, queue, state, count(*), min(finished_at)
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', count(*), min(finished_at)
FROM queue_dead GROUP BY kind, queue
