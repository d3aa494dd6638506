-- step: find
DELETE FROM queue_dead
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
RETURNING id

-- step: found
DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))

-- step: find
DELETE FROM queue_history
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
RETURNING id

-- step: found
DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))

-- step: find
DELETE FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint))) AND worker_id = 0
RETURNING id

-- step: found
DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
