-- Statements that all engines have in common.

-- name: args
SELECT args FROM queue_jobs WHERE id = $1 AND +worker_id = $2 AND fence = $3

-- name: purge_heartbeats
-- Heartbeats of workers that stopped by themselves. A worker that was declared lost has none left.
DELETE FROM queue_heartbeats WHERE worker_id IN (SELECT id FROM queue_workers WHERE stopped_at IS NOT NULL)

-- name: migrated
INSERT INTO queue_migrations (version, name, compatible_since) VALUES ($1, $2, $3)

-- name: resume
DELETE FROM queue_paused WHERE queue = $1

-- name: list
-- $1: after this name, $2: the most rows
SELECT id FROM queue_schedules WHERE name > $1 ORDER BY name LIMIT $2

-- name: span
-- The first and the last unique job of which anything is noted.
SELECT (SELECT MIN(job_id) FROM queue_unique_jobs), (SELECT MAX(job_id) FROM queue_unique_jobs)

-- name: key_of
SELECT unique_key FROM queue_unique_jobs WHERE job_id = $1

-- name: last_of
SELECT job_id FROM queue_unique_keys WHERE kind = $1 AND unique_key = $2 AND job_id <> 0

-- name: has_keys
SELECT 1 FROM queue_unique_keys WHERE kind = $1 LIMIT 1

-- name: release
-- Ends the time of a key.
UPDATE queue_unique_keys SET free_at = NULL WHERE kind = $1 AND unique_key = $2 AND job_id <> 0

-- name: refusals
-- $1: the operation, $2: after this job, $3: those with this reason alone, $4: the most rows
SELECT job_id, reason FROM queue_refusals
WHERE operation_id = $1 AND job_id > $2 AND ($3 IS NULL OR reason = $3) ORDER BY job_id LIMIT $4
