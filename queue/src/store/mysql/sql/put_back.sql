UPDATE JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', delay_us BIGINT PATH '$.delay_us', uncount INT PATH '$.uncount',
    outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = 0, j.attempt = j.attempt - d.uncount, j.losses = IF(d.outcome = 'released', j.losses, 0),
    j.run_at = COALESCE(UTC_TIMESTAMP(6) + INTERVAL d.delay_us MICROSECOND, j.run_at)
WHERE j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NULL
