-- step: find
-- Locks the waiting and running jobs among these jobs, by primary key, in the given order: MySQL does not report which
-- rows an UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- Cancels waiting jobs, first half (the next step is the second). The rows are locked.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, error)
SELECT j.id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       b.reason
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', reason TEXT CHARACTER SET utf8mb4 PATH '$.reason')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id
WHERE worker_id = 0

-- step: found
-- The rows are locked. Held jobs stay.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id WHERE j.worker_id = 0

-- step: found
-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.cancel_requested_at = UTC_TIMESTAMP(6)
WHERE j.worker_id <> 0 AND j.cancel_requested_at IS NULL
