INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt, j.worker_id, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.outcome, d.error
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us', outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome', record BOOLEAN PATH '$.record', error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence AND d.record
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id
