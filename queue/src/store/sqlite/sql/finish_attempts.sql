-- Records cancelled attempts. In the list they are arrays: see finish_history.sql.
WITH batch AS MATERIALIZED (
    SELECT CAST(key AS INTEGER) AS id, value ->> 0 AS fence, value ->> 1 AS ran_us, value ->> 2 AS state, value ->> 4 AS error
    FROM json_each($2) WHERE type = 'array'
)
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, now - d.ran_us / 1000, now, d.state, d.error
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence AND d.state = 'cancelled'
ON CONFLICT DO NOTHING
