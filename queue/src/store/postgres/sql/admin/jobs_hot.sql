-- A page of waiting and running jobs, in primary key order. NULL matches any.
SELECT j.id, kind, queue, state, priority, j.attempt, max_retries,
       -- other languages have no 'infinity': clamped to years 1 to 9999
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, nullif(j.worker_id, 0),
       cancel_requested_at IS NOT NULL, failed.error
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs) AS j
LEFT JOIN LATERAL (SELECT a.outcome, a.error, a.ended_at FROM queue_attempts AS a
                   WHERE j.fence > 0 AND a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                   ORDER BY a.fence DESC LIMIT 1) AS failed
    ON failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
WHERE j.id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR position($7 IN failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= timestamptz '1970-01-01Z' + $8 * interval '1 microsecond')
  AND ($9 IS NULL OR enqueued_at < timestamptz '1970-01-01Z' + $9 * interval '1 microsecond')
  AND ($10 IS NULL OR failed.ended_at >= timestamptz '1970-01-01Z' + $10 * interval '1 microsecond')
  AND ($11 IS NULL OR failed.ended_at < timestamptz '1970-01-01Z' + $11 * interval '1 microsecond')
  AND ($12 = 0 OR j.worker_id = 0 AND failed.error IS NOT NULL)
ORDER BY j.id LIMIT $5
