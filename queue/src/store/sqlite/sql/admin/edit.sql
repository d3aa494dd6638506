-- step: find
UPDATE queue_dead SET args = b.args
FROM (SELECT value ->> 'id' AS id, value ->> 'args' AS args FROM json_each($1)) AS b
WHERE queue_dead.id = b.id
RETURNING id

-- step: find
UPDATE queue_jobs SET args = b.args
FROM (SELECT value ->> 'id' AS id, value ->> 'args' AS args FROM json_each($1)) AS b
WHERE queue_jobs.id = b.id AND worker_id = 0
RETURNING id
