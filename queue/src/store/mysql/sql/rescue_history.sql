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
