-- step: find
-- Locks the dead letters among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.args = b.args

-- step: find
-- Locks the waiting jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id WHERE j.worker_id = 0
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.args = b.args
