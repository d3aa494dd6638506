DELETE FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint))) AND worker_id = 0
RETURNING id, features
