INSERT INTO queue_attempts (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.lease, j.attempt, j.worker_id, COALESCE(j.claimed_at, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6), 'lost',
       CONCAT('the worker', COALESCE(CONCAT(' (', w.host, ':', w.pid, ')'), ''), ' running this job was lost',
              COALESCE(CONCAT(' (no heartbeat since ', DATE_FORMAT(w.heartbeat_at, '%Y-%m-%d %H:%i:%s'), ' UTC)'), ''))
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
LEFT JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = j.worker_id
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id
