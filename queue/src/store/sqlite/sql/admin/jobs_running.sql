-- A page of running jobs. They are few: the index of held rows and a sort are faster than a walk over all waiting rows.
-- NULL matches any.
SELECT j.id, kind, queue, 'running', priority, j.attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, j.worker_id,
       cancel_requested_at IS NOT NULL, failed.error
FROM queue_jobs AS j INDEXED BY queue_jobs_held
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT max(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.worker_id <> 0
  AND j.id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'running' = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR instr(failed.error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR failed.ended_at >= $10 / 1000)
  AND ($11 IS NULL OR failed.ended_at < $11 / 1000)
  AND ($12 = 0 OR 0)
ORDER BY j.id LIMIT +$5
