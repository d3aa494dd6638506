-- step: all
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', doubts INT PATH '$.doubts')) AS d
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = d.id
SET a.outcome = 'lost'
WHERE d.doubts > 0 AND a.outcome = 'unstarted'

-- step: all
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt + d.doubts, j.worker_id, COALESCE(j.claimed_at, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6),
       IF(d.fate = 'unknown', 'unstarted', 'lost'), d.error
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate <> 'unstarted'
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id

-- step: all
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt + d.doubts,
       j.fence, j.worker_id,
       j.enqueued_at, j.run_at, j.claimed_at, UTC_TIMESTAMP(6), CONCAT('cancelled on request; ', d.error)
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate = 'cancelled'

-- step: all
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt + d.doubts, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, UTC_TIMESTAMP(6), d.error
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate = 'dead'

-- step: all
DELETE j
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate IN ('dead', 'cancelled')

-- step: all
-- Returns lost jobs to the queue. From its second loss on, a job waits for a random time, so that jobs that were lost
-- together do not all meet again.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    losses INT PATH '$.losses')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = 0,
    j.attempt = GREATEST(IF(d.fate = 'ready', j.attempt + d.doubts, j.attempt - 1), 0),
    j.losses = LEAST(d.losses, 1000),
    j.run_at = IF(d.fate = 'ready' AND d.losses > 1,
                  UTC_TIMESTAMP(6) + INTERVAL FLOOR(RAND() * LEAST(POW(2, LEAST(d.losses - 1, 10)), 600)
                      * 1000000) MICROSECOND,
                  j.run_at)
WHERE d.fate IN ('ready', 'unstarted', 'unknown')
