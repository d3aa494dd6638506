-- The rows are locked. Held jobs stay.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id WHERE j.worker_id = 0
