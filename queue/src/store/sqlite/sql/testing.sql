-- What tests of users move.

-- name: shift
-- step: all
-- Moves the times of waiting jobs into the past. $1: by how many microseconds, $2: only jobs with an id above this.
UPDATE queue_jobs SET run_at = run_at - $1 / 1000, enqueued_at = enqueued_at - $1 / 1000
WHERE worker_id = 0 AND id > $2

-- step: all
-- Their attempts that could not decode the arguments: these count from the first one.
UPDATE queue_attempts SET started_at = started_at - $1 / 1000, ended_at = ended_at - $1 / 1000
WHERE outcome = 'undecodable' AND job_id IN (SELECT id FROM queue_jobs WHERE worker_id = 0 AND id > $2)

-- step: all
-- The times before which keys of unique jobs are not free.
UPDATE queue_unique_keys SET free_at = free_at - $1 / 1000 WHERE free_at IS NOT NULL AND job_id > $2

-- name: adopt
-- Schedules whose next tick is to be computed count from now on, in a test's time. $1: microseconds that the test is
-- ahead of the clock
UPDATE queue_schedules
SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $1 / 1000
WHERE next_at = 0
