-- Operations: what was done through the administration, and how far those on many jobs have come.

-- name: bounds
-- Now, and the highest number of a job.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       GREATEST(COALESCE((SELECT MAX(id) FROM queue_jobs), 0), COALESCE((SELECT MAX(id) FROM queue_history), 0),
                COALESCE((SELECT MAX(id) FROM queue_dead), 0))

-- name: begin
-- $1: actor, $2: reason, $3: action, $4: details, $5: job, $6: state, $7: how many it has changed
INSERT INTO queue_operations (actor, reason, action, details, job_id, state, changed, beat_at, ended_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, CASE $6 WHEN 'running' THEN UTC_TIMESTAMP(6) END,
        CASE $6 WHEN 'done' THEN UTC_TIMESTAMP(6) END)

-- name: advance
-- It came from job $2 to job $3, and has changed $4 more, unless somebody has stopped or taken over operation $1.
UPDATE queue_operations SET last_id = $3, changed = changed + $4, beat_at = UTC_TIMESTAMP(6)
WHERE id = $1 AND state = 'running' AND last_id = $2

-- name: end
UPDATE queue_operations SET state = $2, ended_at = UTC_TIMESTAMP(6) WHERE id = $1 AND state = 'running'

-- name: refuse
-- $2: a list of jobs and reasons. A later reason counts.
INSERT INTO queue_refusals (operation_id, job_id, reason)
SELECT $1, b.id, b.reason
FROM JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$.id', reason TEXT CHARACTER SET utf8mb4 PATH '$.reason')) AS b
ON DUPLICATE KEY UPDATE reason = b.reason

-- name: forgive
DELETE r FROM JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_refusals AS r FORCE INDEX (PRIMARY) ON r.operation_id = $1 AND r.job_id = b.id

-- name: unattended
-- One whose program has not been heard of for $1 microseconds.
SELECT id FROM queue_operations WHERE state = 'running' AND beat_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
ORDER BY beat_at LIMIT 1

-- name: purge
-- step: each
DELETE FROM queue_refusals WHERE operation_id IN (
    SELECT id FROM (SELECT id, ended_at FROM queue_operations ORDER BY id LIMIT 1000) AS o
    WHERE ended_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND)

-- step: each
DELETE FROM queue_operations WHERE id IN (
    SELECT id FROM (SELECT id, ended_at FROM queue_operations ORDER BY id LIMIT 1000) AS o
    WHERE ended_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND)

-- name: list
-- The $2 last operations before $1.
SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at), actor, reason, action, details, job_id, state, changed,
       last_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at),
       (SELECT COUNT(*) FROM queue_refusals AS r WHERE r.operation_id = o.id)
FROM queue_operations AS o WHERE id < $1 ORDER BY id DESC LIMIT $2

-- name: list_of_job
-- The same for job $3 alone.
SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at), actor, reason, action, details, job_id, state, changed,
       last_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at),
       (SELECT COUNT(*) FROM queue_refusals AS r WHERE r.operation_id = o.id)
FROM queue_operations AS o WHERE id < $1 AND job_id = $3 ORDER BY id DESC LIMIT $2
