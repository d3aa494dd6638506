-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
WITH gone AS (
    DELETE FROM queue_dead
    WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
    RETURNING *
)
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at)
    OVERRIDING SYSTEM VALUE
SELECT id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, now() FROM gone
RETURNING id, features
