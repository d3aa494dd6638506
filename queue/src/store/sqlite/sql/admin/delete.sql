-- step: find
DELETE FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) RETURNING id

-- step: found
DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: find
DELETE FROM queue_history WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) RETURNING id

-- step: found
DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: find
DELETE FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) AND worker_id = 0 RETURNING id

-- step: found
DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))
