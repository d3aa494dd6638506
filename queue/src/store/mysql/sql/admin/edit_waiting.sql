-- The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.args = b.args
