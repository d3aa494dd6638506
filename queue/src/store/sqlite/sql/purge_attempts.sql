DELETE FROM queue_attempts WHERE job_id IN (SELECT value FROM json_each($1))
