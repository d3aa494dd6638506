-- A page of running jobs, found through the claim records: no walk over all waiting rows. NULL matches any.
SELECT j.id, kind, queue, 'running', priority, j.attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', claimed_at), CAST(NULL AS SIGNED), j.worker_id,
       cancel_requested_at IS NOT NULL, failed.error
FROM (SELECT DISTINCT d.id
      FROM queue_claims AS c
      STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d) AS claimed
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = claimed.id
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT MAX(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.worker_id <> 0
  AND j.id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'running' = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR LOCATE($7, failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR failed.ended_at >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR failed.ended_at < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR 0)
ORDER BY j.id LIMIT $5
