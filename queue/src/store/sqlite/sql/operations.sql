-- Operations: what was done through the administration, and how far those on many jobs have come.

-- name: bounds
-- Now, and the highest number of a job.
SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
       max(coalesce((SELECT max(id) FROM queue_jobs), 0), coalesce((SELECT max(id) FROM queue_history), 0),
           coalesce((SELECT max(id) FROM queue_dead), 0))

-- name: begin
-- $1: actor, $2: reason, $3: action, $4: details, $5: job, $6: state, $7: how many it has changed
INSERT INTO queue_operations (actor, reason, action, details, job_id, state, changed, beat_at, ended_at)
VALUES ($1, $2, $3, $4, $5, $6, $7,
        CASE $6 WHEN 'running' THEN CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) END,
        CASE $6 WHEN 'done' THEN CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) END)
RETURNING id

-- name: advance
-- It came from job $2 to job $3, and has changed $4 more, unless somebody has stopped or taken over operation $1.
UPDATE queue_operations SET last_id = $3, changed = changed + $4,
    beat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id = $1 AND state = 'running' AND last_id = $2

-- name: end
UPDATE queue_operations SET state = $2, ended_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id = $1 AND state = 'running'

-- name: refuse
-- $2: a list of jobs and reasons. A later reason counts.
INSERT INTO queue_refusals (operation_id, job_id, reason)
SELECT $1, value ->> 'id', value ->> 'reason' FROM json_each($2) WHERE true
ON CONFLICT (operation_id, job_id) DO UPDATE SET reason = excluded.reason

-- name: forgive
DELETE FROM queue_refusals
WHERE operation_id = $1 AND job_id IN (SELECT value ->> 'id' FROM json_each($2))

-- name: unattended
-- One whose program has not been heard of for $1 microseconds.
SELECT id FROM queue_operations
WHERE state = 'running' AND beat_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
ORDER BY beat_at LIMIT 1

-- name: purge
-- step: each
DELETE FROM queue_refusals WHERE operation_id IN (
    SELECT id FROM (SELECT id, ended_at FROM queue_operations ORDER BY id LIMIT 1000) AS o
    WHERE ended_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000)

-- step: each
DELETE FROM queue_operations WHERE id IN (
    SELECT id FROM (SELECT id, ended_at FROM queue_operations ORDER BY id LIMIT 1000) AS o
    WHERE ended_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000)

-- name: list
-- The $2 last operations before $1.
SELECT id, started_at * 1000, actor, reason, action, details, job_id, state, changed, last_id, ended_at * 1000,
       (SELECT count(*) FROM (SELECT 1 FROM queue_refusals WHERE operation_id = o.id LIMIT 10000) AS r)
FROM queue_operations AS o WHERE id < $1 ORDER BY id DESC LIMIT +$2

-- name: list_of_job
-- The same for job $3 alone.
SELECT id, started_at * 1000, actor, reason, action, details, job_id, state, changed, last_id, ended_at * 1000,
       (SELECT count(*) FROM (SELECT 1 FROM queue_refusals WHERE operation_id = o.id LIMIT 10000) AS r)
FROM queue_operations AS o WHERE id < $1 AND job_id = $3 ORDER BY id DESC LIMIT +$2
