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
                           enqueued_at, run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt - d.uncount,
       j.fence, j.worker_id, j.enqueued_at, j.run_at,
       CASE WHEN d.record THEN UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND END,
           UTC_TIMESTAMP(6), 'cancelled on request'
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
