UPDATE queue_jobs SET worker_id = 0, claimed_at = NULL
WHERE id IN (SELECT value ->> 'id' FROM json_each($1) WHERE value ->> 'fate' = 'ready')
