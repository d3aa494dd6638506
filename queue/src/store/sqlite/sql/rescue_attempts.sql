INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt + (d.value ->> 'doubts'), j.worker_id, coalesce(j.claimed_at, now), now,
       iif(d.value ->> 'fate' = 'unknown', 'unstarted', 'lost'), d.value ->> 'error'
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' <> 'unstarted'
ON CONFLICT DO NOTHING
