-- Locks the jobs that are still this lease's, so that the statements that follow agree. (MySQL refuses to lock beside a table
-- function that is not wrapped.)
INSERT INTO queue_history (id, kind, queue, state, args, priority, max_retries, attempt, lease, worker_id, enqueued_at,
                           run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, d.state, j.args, j.priority, j.max_retries, j.attempt, j.lease, j.worker_id, j.enqueued_at,
       j.run_at, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.result, d.error
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', lease INT PATH '$.lease', ran_us BIGINT PATH '$.ran_us', state VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.state', result LONGTEXT CHARACTER SET utf8mb4 PATH '$.result', error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.lease = d.lease
FOR UPDATE
