DELETE FROM queue_attempts WHERE job_id = ANY (ARRAY(SELECT id::bigint FROM json_array_elements_text($1::json) AS d (id)))
