DELETE FROM queue_history WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) RETURNING id, features
