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
