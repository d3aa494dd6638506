DELETE FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) RETURNING id, features
