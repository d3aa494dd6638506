-- Copies finished jobs to the history. It locks the jobs that this worker still holds under the same fence, so that the
-- following statements see the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT j.id, j.kind, j.queue, d.state, j.args, j.priority, j.features, j.max_retries, j.attempt, j.fence, j.worker_id,
       j.enqueued_at, j.run_at, UTC_TIMESTAMP(6) - INTERVAL d.ran_us MICROSECOND, UTC_TIMESTAMP(6), d.result, d.error
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', fence INT PATH '$[1]', ran_us BIGINT PATH '$[2]', state VARCHAR(16) CHARACTER SET utf8mb4 PATH '$[3]', result LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', error TEXT CHARACTER SET utf8mb4 PATH '$[5]')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE
