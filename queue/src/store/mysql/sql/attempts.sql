-- A held job, from the start of its handler to the end of the attempt.

-- name: started
-- step: all
-- Locks the jobs of the batch that this worker still holds under the same fence, so that the following statements see
-- the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
SELECT j.id
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE

-- step: all
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', max_neighbours INT PATH '$.max_neighbours')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.started_fence = j.fence, j.max_neighbours = d.max_neighbours
WHERE j.worker_id = $1 AND j.fence = d.fence

-- name: undecodable
-- How long ago the arguments of a job first did not decode, if they never did since.
SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(started_at), UTC_TIMESTAMP(6)), 0)
FROM queue_attempts
WHERE job_id = $1 AND outcome = 'undecodable'
  AND fence > COALESCE((SELECT MAX(b.fence) FROM queue_attempts AS b
                        WHERE b.job_id = $1 AND b.outcome NOT IN ('undecodable', 'released', 'lost', 'unstarted')), 0)

-- name: finish
-- step: each
-- Copies finished jobs to the history. It locks the jobs that this worker still holds under the same fence, so that the
-- following statements see the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT j.id, j.kind, j.queue, d.state, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.result, d.error,
       j.meta
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', fence INT PATH '$[1]', ran_us BIGINT PATH '$[2]',
        state VARCHAR(16) CHARACTER SET utf8mb4 PATH '$[3]',
        result LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]',
        error TEXT CHARACTER SET utf8mb4 PATH '$[5]')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE

-- step: refused
-- Locks the jobs of the batch that this worker still holds under the same fence, so that the following statements see
-- the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
SELECT j.id
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', fence INT PATH '$[1]')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE

-- step: recorded
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND,
    UTC_TIMESTAMP(6), d.state, d.error
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', fence INT PATH '$[1]', ran_us BIGINT PATH '$[2]',
        state VARCHAR(16) CHARACTER SET utf8mb4 PATH '$[3]',
        error TEXT CHARACTER SET utf8mb4 PATH '$[5]')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence AND d.state = 'cancelled'
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id

-- step: runs
-- Deletes locked jobs of this worker, by ranges of ids. The last id of a range is a separate condition: a range read
-- also locks the row behind its end, which may be another worker's.
DELETE j
FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.worker_id = $1
  AND (j.id BETWEEN $3 AND $4 - 1 OR j.id = $4
       OR j.id BETWEEN $5 AND $6 - 1 OR j.id = $6
       OR j.id BETWEEN $7 AND $8 - 1 OR j.id = $8
       OR j.id BETWEEN $9 AND $10 - 1 OR j.id = $10
       OR j.id BETWEEN $11 AND $12 - 1 OR j.id = $12
       OR j.id BETWEEN $13 AND $14 - 1 OR j.id = $14
       OR j.id BETWEEN $15 AND $16 - 1 OR j.id = $16
       OR j.id BETWEEN $17 AND $18 - 1 OR j.id = $18)

-- step: scattered
DELETE j
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', fence INT PATH '$[1]')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence

-- name: requeue
-- step: all
-- Locks the jobs of the batch that this worker still holds under the same fence, so that the following statements see
-- the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
SELECT j.id
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE

-- step: recorded
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND,
    UTC_TIMESTAMP(6), d.outcome, d.error
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us',
        outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome',
        record BOOLEAN PATH '$.record', error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence AND d.record
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id

-- step: forgetting
-- Of the attempts of a job that do not count (snoozed, released), keeps only the last 100 to 200.
DELETE a
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', forget INT PATH '$.forget')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = j.id AND a.fence <= d.forget
WHERE j.worker_id = $1 AND j.fence = d.fence AND a.outcome IN ('snoozed', 'released')

-- step: all
-- Ends jobs as cancelled, instead of returning them, if cancellation was requested meanwhile.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt - d.uncount,
       j.fence, j.worker_id, j.enqueued_at, j.run_at,
       CASE WHEN d.record THEN UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND END,
           UTC_TIMESTAMP(6), 'cancelled on request', j.meta
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us',
        uncount INT PATH '$.uncount', record BOOLEAN PATH '$.record')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NOT NULL

-- step: all
DELETE j
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NOT NULL

-- step: all
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', delay_us BIGINT PATH '$.delay_us', uncount INT PATH '$.uncount',
    outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = 0, j.attempt = j.attempt - d.uncount,
    j.losses = IF(d.outcome IN ('released', 'undecodable'), j.losses, 0),
    j.run_at = COALESCE(UTC_TIMESTAMP(6) + INTERVAL d.delay_us MICROSECOND, j.run_at)
WHERE j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NULL

-- name: bury
-- step: all
-- Locks the jobs of the batch that this worker still holds under the same fence, so that the following statements see
-- the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
SELECT j.id
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE

-- step: recorded
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND,
    UTC_TIMESTAMP(6), d.outcome, d.error
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us',
        outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome',
        error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id

-- step: all
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.error, j.meta
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us',
        error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence

-- step: all
DELETE j
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence

-- name: guard
-- Locks the job until the end of a transaction of its handler's: see `complete`.
SELECT j.id FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.id = $1 AND j.worker_id = $2 AND j.fence = $3
  AND j.enqueued_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
FOR UPDATE

-- name: complete
-- step: sure
-- As the next step, but it finds nothing unless the server says that there is a transaction. Only MariaDB can tell.
-- MySQL reads a comment, and always finds nothing.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT j.id, j.kind, j.queue, 'completed', j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL $5 MICROSECOND, UTC_TIMESTAMP(6), $6, NULL,
       j.meta
FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.id = $1 AND j.worker_id = $2 AND j.fence = $3
  AND j.enqueued_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
  AND (FALSE /*M! OR @@in_transaction = 1 */)
FOR UPDATE

-- step: each
-- Completes one job in a transaction of its handler's. It locks that row and no gap, whatever the isolation level. The
-- job's own time of enqueue tells another database apart, which may have the same numbers.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT j.id, j.kind, j.queue, 'completed', j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL $5 MICROSECOND, UTC_TIMESTAMP(6), $6, NULL,
       j.meta
FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.id = $1 AND j.worker_id = $2 AND j.fence = $3
  AND j.enqueued_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
FOR UPDATE

-- step: all
DELETE FROM queue_jobs WHERE id = $1 AND worker_id = $2 AND fence = $3

-- name: still_held
-- Which of these jobs the worker still holds under these fences. Takes no locks.
SELECT j.id
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
