-- A held job, from the start of its handler to the end of the attempt.

-- name: started
UPDATE queue_jobs
SET started_fence = fence, max_neighbours = d.value ->> 'max_neighbours'
FROM json_each($2) AS d
WHERE queue_jobs.id = d.value ->> 'id' AND +queue_jobs.worker_id = $1 AND queue_jobs.fence = d.value ->> 'fence'
RETURNING queue_jobs.id

-- name: undecodable
-- How long ago the arguments of a job first did not decode, if they never did since.
SELECT coalesce(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - min(started_at), 0) * 1000
FROM queue_attempts
WHERE job_id = $1 AND outcome = 'undecodable'
  AND fence > COALESCE((SELECT MAX(b.fence) FROM queue_attempts AS b
                        WHERE b.job_id = $1 AND b.outcome NOT IN ('undecodable', 'released', 'lost', 'unstarted')), 0)

-- name: finish
-- step: recorded
-- Records cancelled attempts. In the list they are arrays: see the next step.
WITH batch AS MATERIALIZED (
    SELECT CAST(key AS INTEGER) AS id, value ->> 0 AS fence, value ->> 1 AS ran_us, value ->> 2 AS state,
        value ->> 4 AS error
    FROM json_each($2) WHERE type = 'array'
)
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, now - d.ran_us / 1000, now, d.state, d.error
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence AND d.state = 'cancelled'
ON CONFLICT DO NOTHING

-- step: each
-- Moves finished jobs to the history: a trigger deletes them from queue_jobs. $2: an object by id. A number stands for
-- a job completed without a result, as nearly all are: its lower 30 bits are the fence, the others the run time in
-- milliseconds. Any other end is an array: `[fence, ran_us, state, result, error]`.
WITH batch AS NOT MATERIALIZED (
    SELECT CAST(key AS INTEGER) AS id,
           iif(type = 'integer', value & 1073741823, value ->> 0) AS fence,
           iif(type = 'integer', value >> 30, (value ->> 1) / 1000) AS ran_ms,
           iif(type = 'integer', 'completed', value ->> 2) AS state,
           iif(type = 'integer', NULL, value ->> 3) AS result,
           iif(type = 'integer', NULL, value ->> 4) AS error
    FROM json_each($2)
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT j.id, j.kind, j.queue, d.state, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, now - d.ran_ms, now, d.result, d.error, j.meta
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence

-- step: refused
-- Which ends were accepted. Runs only if some were not. A row that was removed meanwhile counts as refused, which costs
-- a log line. $2: see the step before.
SELECT h.id FROM json_each($2) AS d CROSS JOIN queue_history AS h ON h.id = CAST(d.key AS INTEGER)
WHERE h.fence = iif(d.type = 'integer', d.value & 1073741823, d.value ->> 0) AND h.worker_id = $1

-- name: requeue
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
                           enqueued_at, run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt - d.uncount,
       j.fence, j.worker_id, j.enqueued_at, j.run_at, CASE WHEN d.record THEN now - d.ran_us / 1000 END, now,
       'cancelled on request', j.meta
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NOT NULL
RETURNING id

-- step: all
-- Returns jobs to the queue. Delays: see `insert_one_later`.
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

-- name: bury
-- step: recorded
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'ran_us' AS ran_us,
        value ->> 'outcome' AS outcome, value ->> 'error' AS error
    FROM json_each($2)
)
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, now - d.ran_us / 1000, now, d.outcome, d.error
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence
ON CONFLICT DO NOTHING

-- step: all
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'ran_us' AS ran_us, value ->> 'error' AS error
    FROM json_each($2)
)
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, now - d.ran_us / 1000, now, d.error, j.meta
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence
RETURNING id

-- name: guard
-- Keeps every other writer out until the end of a transaction of the handler's, as any write does. See `complete`.
UPDATE queue_jobs SET fence = fence
WHERE id = $1 AND +worker_id = $2 AND fence = $3 AND enqueued_at = $4 / 1000
RETURNING id

-- name: complete
-- Completes one job in a transaction of its handler's: a trigger deletes it from queue_jobs. The job's own time of
-- enqueue tells another database apart, which may have the same numbers.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT j.id, j.kind, j.queue, 'completed', j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, now - $5 / 1000, now, $6, NULL, j.meta
FROM queue_jobs AS j
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE j.id = $1 AND +j.worker_id = $2 AND j.fence = $3 AND j.enqueued_at = $4 / 1000

-- name: still_held
-- Which of these jobs the worker still holds under these fences. Takes no locks.
SELECT j.id FROM json_each($2) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
WHERE +j.worker_id = $1 AND j.fence = d.value ->> 'fence'
