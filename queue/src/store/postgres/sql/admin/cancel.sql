-- step: find
-- Locks the waiting and running jobs among these, so that none can change from one to the other. It is a step
-- of its own, so that the next ones see each job as it is: one statement that met a job on its way from running to
-- waiting would cancel neither.
SELECT id FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
ORDER BY id FOR UPDATE SKIP LOCKED

-- step: found
-- Cancels waiting jobs. The rows are locked.
WITH gone AS (
    DELETE FROM queue_jobs
    WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
      AND worker_id = 0
    RETURNING *
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, error)
SELECT id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       reason
FROM gone JOIN json_to_recordset($1::json) AS b (id bigint, reason text) USING (id)

-- step: found
-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE queue_jobs SET cancel_requested_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
  AND worker_id <> 0 AND cancel_requested_at IS NULL
