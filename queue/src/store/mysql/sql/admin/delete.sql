-- step: find
-- Locks the dead letters among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- step: found
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id

-- step: find
-- Locks the completed and cancelled jobs among these jobs, by primary key, in the given order: MySQL does not report
-- which rows an UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_history AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_history AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- step: found
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id

-- step: find
-- Locks the waiting jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id WHERE j.worker_id = 0
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked. Held jobs stay.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id WHERE j.worker_id = 0

-- step: found
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id
