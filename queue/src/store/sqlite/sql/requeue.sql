-- step: recorded
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'ran_us' AS ran_us,
        value ->> 'outcome' AS outcome, value ->> 'record' AS record, value ->> 'error' AS error
    FROM json_each($2)
)
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, now - d.ran_us / 1000, now, d.outcome, d.error
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence AND d.record
ON CONFLICT DO NOTHING

-- step: forgetting
-- Of the attempts of a job that do not count (snoozed, released), keeps only the last 100 to 200.
DELETE FROM queue_attempts
WHERE (job_id, fence) IN (
    SELECT a.job_id, a.fence
    FROM json_each($2) AS d
    CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
    CROSS JOIN queue_attempts AS a ON a.job_id = j.id AND a.fence <= d.value ->> 'forget'
    WHERE d.value ->> 'forget' IS NOT NULL AND +j.worker_id = $1 AND j.fence = d.value ->> 'fence'
      AND a.outcome IN ('snoozed', 'released')
)

-- step: all
-- Ends jobs as cancelled, instead of returning them, if cancellation was requested meanwhile.
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'ran_us' AS ran_us,
        value ->> 'uncount' AS uncount, value ->> 'record' AS record
    FROM json_each($2)
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt - d.uncount,
       j.fence, j.worker_id, j.enqueued_at, j.run_at, CASE WHEN d.record THEN now - d.ran_us / 1000 END, now,
       'cancelled on request'
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NOT NULL
RETURNING id

-- step: all
-- Returns jobs to the queue. Delays: see insert_one_later.sql.
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'delay_us' AS delay_us,
        value ->> 'uncount' AS uncount,
           value ->> 'outcome' AS outcome
    FROM json_each($2)
)
UPDATE queue_jobs
SET worker_id = 0, claimed_at = NULL, attempt = attempt - d.uncount,
    losses = iif(d.outcome IN ('released', 'undecodable'), losses, 0),
    run_at = coalesce(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                      + iif(d.delay_us > 0, (d.delay_us + 2999) / 1000, d.delay_us), run_at)
FROM batch AS d
WHERE queue_jobs.id = d.id AND +queue_jobs.worker_id = $1 AND queue_jobs.fence = d.fence
  AND queue_jobs.cancel_requested_at IS NULL
RETURNING queue_jobs.id
