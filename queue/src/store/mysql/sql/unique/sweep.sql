-- step: all
-- Removes the keys that these jobs have, and then what was noted of them. They are nowhere any more.
DELETE k FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY)
    ON k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id

-- step: all
DELETE n FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
