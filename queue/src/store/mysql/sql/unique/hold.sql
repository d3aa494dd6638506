-- Locks jobs, so that they start after this transaction.
SELECT j.id, j.worker_id, j.fence
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = w.id
FOR UPDATE
