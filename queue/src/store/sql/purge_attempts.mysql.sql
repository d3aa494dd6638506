DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_attempts AS a ON a.job_id = d.id
