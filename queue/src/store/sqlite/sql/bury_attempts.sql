WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'ran_us' AS ran_us, value ->> 'outcome' AS outcome, value ->> 'error' AS error
    FROM json_each($2)
)
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, now - d.ran_us / 1000, now, d.outcome, d.error
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence
ON CONFLICT DO NOTHING
