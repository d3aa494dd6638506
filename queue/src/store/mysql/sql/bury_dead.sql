INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.error
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us', error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
