INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt + d.doubts, j.worker_id, COALESCE(j.claimed_at, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6),
       IF(d.fate = 'unknown', 'unstarted', 'lost'), d.error
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate <> 'unstarted'
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id
