-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_history AS j FORCE INDEX (PRIMARY) ON j.id = b.id
