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
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, d.state, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, now - d.ran_ms, now, d.result, d.error
FROM batch AS d CROSS JOIN queue_jobs AS j ON j.id = d.id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE +j.worker_id = $1 AND j.fence = d.fence

-- step: refused
-- Which ends were accepted. Runs only if some were not. A row that was removed meanwhile counts as refused, which costs
-- a log line. $2: see the step before.
SELECT h.id FROM json_each($2) AS d CROSS JOIN queue_history AS h ON h.id = CAST(d.key AS INTEGER)
WHERE h.fence = iif(d.type = 'integer', d.value & 1073741823, d.value ->> 0) AND h.worker_id = $1
