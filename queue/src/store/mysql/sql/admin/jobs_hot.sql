-- A page of waiting and running jobs, in primary key order. NULL matches any.
SELECT j.id, kind, queue, state, priority, j.attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(j.worker_id <> 0, claimed_at, NULL)),
           CAST(NULL AS SIGNED), NULLIF(j.worker_id, 0),
       cancel_requested_at IS NOT NULL, failed.error
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running'
                     WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled'
                     ELSE 'ready' END AS state
      FROM queue_jobs) AS j
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT MAX(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR LOCATE($7, failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR failed.ended_at >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR failed.ended_at < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR j.worker_id = 0 AND failed.error IS NOT NULL)
ORDER BY j.id LIMIT $5
