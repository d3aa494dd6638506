DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id
