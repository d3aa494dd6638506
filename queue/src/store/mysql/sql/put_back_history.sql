-- Ends jobs as cancelled, instead of returning them, if cancellation was requested meanwhile.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt - d.uncount,
       j.fence, j.worker_id, j.enqueued_at, j.run_at,
       CASE WHEN d.record THEN UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND END, UTC_TIMESTAMP(6), 'cancelled on request'
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', ran_us BIGINT PATH '$.ran_us', uncount INT PATH '$.uncount', record BOOLEAN PATH '$.record')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence AND j.cancel_requested_at IS NOT NULL
