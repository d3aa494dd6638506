-- Sets another due time for waiting jobs. The table rejects times in the first years after 1970, which look like
-- seconds instead of milliseconds. Such a time becomes 1970, which is due as well.
UPDATE queue_jobs SET run_at = iif(b.run_at BETWEEN 1 AND 99999999999, 0, b.run_at)
FROM (SELECT value ->> 'id' AS id, (value ->> 'run_at') / 1000 AS run_at FROM json_each($1)) AS b
WHERE queue_jobs.id = b.id AND worker_id = 0
RETURNING id
