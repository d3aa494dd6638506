-- Makes scheduled jobs ready. The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.run_at = UTC_TIMESTAMP(6)
