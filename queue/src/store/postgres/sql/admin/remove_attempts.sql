DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
