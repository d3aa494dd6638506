-- Locks jobs, whether they wait or run.
SELECT j.id, j.worker_id, j.fence
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = w.id
LIMIT 18446744073709551615
FOR UPDATE
