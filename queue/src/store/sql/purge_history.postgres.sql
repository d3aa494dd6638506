DELETE FROM queue_history WHERE id = ANY (ARRAY(SELECT id::bigint FROM json_array_elements_text($1::json) AS d (id)))
