DELETE b FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = d.id
