DELETE FROM queue_history
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
RETURNING id, features
