DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))
