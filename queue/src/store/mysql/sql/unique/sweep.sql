-- step: find
-- Locks the keys that these jobs have. They are nowhere any more. A key whose time is not over stays. What others lock
-- is left for the next time: a sweep waits for nobody.
SELECT n.job_id FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = n.kind AND k.unique_key = n.unique_key
WHERE k.job_id = n.job_id AND (k.free_at IS NULL OR k.free_at <= UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED

-- step: found
DELETE k FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = n.kind AND k.unique_key = n.unique_key
WHERE k.job_id = n.job_id

-- step: find
-- What was noted of them, unless their key is still there. No locks of keys.
SELECT n.job_id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
WHERE NOT EXISTS (
    SELECT 1 FROM queue_unique_keys AS k
    WHERE k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id)

-- step: found
DELETE n FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
