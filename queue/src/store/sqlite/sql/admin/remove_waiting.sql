DELETE FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) AND worker_id = 0 RETURNING id, features
