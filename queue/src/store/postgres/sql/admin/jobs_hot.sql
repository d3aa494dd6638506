-- A page of the jobs that wait or run, along the primary key. NULL for kind, queue or state: any.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       -- 'infinity' is no time for others: cut to the years that every language knows
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, nullif(worker_id, 0),
       cancel_requested_at IS NOT NULL, NULL::text
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs) AS j
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
ORDER BY id LIMIT $5
