-- Makes scheduled jobs ready.
UPDATE queue_jobs SET run_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
  AND worker_id = 0 AND run_at > now()
RETURNING id
