-- step: each
-- Copies finished jobs to the history. It locks the jobs that this worker still holds under the same fence, so that the
-- following statements see the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, d.state, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.result, d.error
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
