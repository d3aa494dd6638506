-- A page of waiting and running jobs, in primary key order. NULL matches any.
SELECT j.id, kind, queue, state, priority, j.attempt, max_retries,
       -- any integer may be stored: clamped to years 1 to 9999
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, nullif(j.worker_id, 0),
       cancel_requested_at IS NOT NULL, failed.error
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running'
                     WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
                     ELSE 'ready' END AS state
      FROM queue_jobs) AS j
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT max(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR instr(failed.error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR failed.ended_at >= $10 / 1000)
  AND ($11 IS NULL OR failed.ended_at < $11 / 1000)
  AND ($12 = 0 OR j.worker_id = 0 AND failed.error IS NOT NULL)
ORDER BY j.id LIMIT +$5
