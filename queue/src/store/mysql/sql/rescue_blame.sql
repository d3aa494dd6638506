UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', doubts INT PATH '$.doubts')) AS d
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = d.id
SET a.outcome = 'lost'
WHERE d.doubts > 0 AND a.outcome = 'unstarted'
