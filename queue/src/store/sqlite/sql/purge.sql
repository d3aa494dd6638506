-- step: all
DELETE FROM queue_history WHERE id IN (SELECT value FROM json_each($1))

-- step: all
DELETE FROM queue_attempts WHERE job_id IN (SELECT value FROM json_each($1))
