-- dead to ready, with all attempts before it. The fence goes on from where it stood: it is the fence.
WITH gone AS (
    DELETE FROM queue_dead
    WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
    RETURNING *
)
INSERT INTO queue_jobs (id, kind, queue, args, priority, max_retries, enqueued_at, fence, run_at) OVERRIDING SYSTEM VALUE
SELECT id, kind, queue, args, priority, max_retries, enqueued_at, fence, now() FROM gone
RETURNING id
