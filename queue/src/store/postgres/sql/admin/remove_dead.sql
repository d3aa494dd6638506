DELETE FROM queue_dead
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
RETURNING id, features
