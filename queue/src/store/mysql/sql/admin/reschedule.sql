-- Sets another due time for waiting jobs. The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', run_at BIGINT PATH '$.run_at')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id
SET j.run_at = TIMESTAMPADD(MICROSECOND, b.run_at, '1970-01-01')
