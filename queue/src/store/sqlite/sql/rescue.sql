-- step: all
UPDATE queue_attempts SET outcome = 'lost'
WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1) WHERE value ->> 'doubts' > 0) AND outcome = 'unstarted'

-- step: all
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt + (d.value ->> 'doubts'), j.worker_id, coalesce(j.claimed_at, now), now,
       iif(d.value ->> 'fate' = 'unknown', 'unstarted', 'lost'), d.value ->> 'error'
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' <> 'unstarted'
ON CONFLICT DO NOTHING

-- step: all
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries,
       j.attempt + (d.value ->> 'doubts'), j.fence,
       j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, now, 'cancelled on request; ' || (d.value ->> 'error')
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' = 'cancelled'

-- step: all
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt + (d.value ->> 'doubts'),
       j.fence, j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, now, d.value ->> 'error'
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' = 'dead'

-- step: all
-- Returns lost jobs to the queue. From its second loss on, a job waits for a random time, so that jobs that were lost
-- together do not all meet again.
UPDATE queue_jobs
SET worker_id = 0, claimed_at = NULL,
    attempt = max(iif(d.fate = 'ready', attempt + d.doubts, attempt - 1), 0),
    losses = min(d.losses, 1000),
    run_at = iif(d.fate = 'ready' AND d.losses > 1,
                 CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                 + abs(random() % 1000000) * min(1 << min(d.losses - 1, 10), 600) / 1000,
                 run_at)
FROM (SELECT value ->> 'id' AS id, value ->> 'fate' AS fate, value ->> 'doubts' AS doubts, value ->> 'losses' AS losses
      FROM json_each($1)) AS d
WHERE queue_jobs.id = d.id AND d.fate IN ('ready', 'unstarted', 'unknown')
