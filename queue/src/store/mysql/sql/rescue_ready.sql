-- Returns lost jobs to the queue. From its second loss on, a job waits for a random time, so that jobs that were lost
-- together do not all meet again.
-- $1 contains the losses before this one, because the order of the assignments below is undefined.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    losses INT PATH '$.losses')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = 0,
    j.attempt = GREATEST(IF(d.fate = 'ready', j.attempt + d.doubts, j.attempt - 1), 0),
    j.losses = LEAST(d.losses + IF(d.fate = 'unstarted', 0, 1), 1000),
    j.run_at = IF(d.fate = 'ready' AND d.losses > 0,
                  UTC_TIMESTAMP(6) + INTERVAL FLOOR(RAND() * LEAST(POW(2, LEAST(d.losses, 10)), 600) * 1000000) MICROSECOND,
                  j.run_at)
WHERE d.fate IN ('ready', 'unstarted', 'unknown')
