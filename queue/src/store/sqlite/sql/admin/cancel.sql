-- step: find
-- The waiting and running jobs among these. No lock: the transaction is already the only writer.
SELECT id FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: found
-- Cancels waiting jobs: a trigger deletes them from queue_jobs.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, finished_at, error)
SELECT j.id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), b.reason
FROM (SELECT value ->> 'id' AS id, value ->> 'reason' AS reason FROM json_each($1)) AS b
CROSS JOIN queue_jobs AS j ON j.id = b.id
WHERE worker_id = 0

-- step: found
-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE queue_jobs SET cancel_requested_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
  AND worker_id <> 0 AND cancel_requested_at IS NULL
