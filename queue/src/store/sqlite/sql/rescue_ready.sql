-- Returns lost jobs to the queue. From its second loss on, a job waits for a random time, so that jobs that were lost
-- together do not all meet again.
UPDATE queue_jobs
SET worker_id = 0, claimed_at = NULL,
    attempt = max(iif(d.fate = 'ready', attempt + d.doubts, attempt - 1), 0),
    losses = min(d.losses + iif(d.fate = 'unstarted', 0, 1), 1000),
    run_at = iif(d.fate = 'ready' AND d.losses > 0,
                 CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                 + abs(random() % 1000000) * min(1 << min(d.losses, 10), 600) / 1000,
                 run_at)
FROM (SELECT value ->> 'id' AS id, value ->> 'fate' AS fate, value ->> 'doubts' AS doubts, value ->> 'losses' AS losses
      FROM json_each($1)) AS d
WHERE queue_jobs.id = d.id AND d.fate IN ('ready', 'unstarted', 'unknown')
