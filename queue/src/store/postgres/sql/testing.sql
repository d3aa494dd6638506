-- What tests of users move.

-- name: shift
-- step: all
-- Moves the times of waiting jobs into the past. $1: by how many microseconds, $2: only jobs with an id above this.
UPDATE queue_jobs
SET run_at = run_at - $1 * interval '1 microsecond', enqueued_at = enqueued_at - $1 * interval '1 microsecond'
WHERE worker_id = 0 AND id > $2

-- step: all
-- Their attempts that could not decode the arguments: these count from the first one.
UPDATE queue_attempts AS a
SET started_at = a.started_at - $1 * interval '1 microsecond', ended_at = a.ended_at - $1 * interval '1 microsecond'
FROM queue_jobs AS j
WHERE j.worker_id = 0 AND j.id > $2 AND a.job_id = j.id AND a.outcome = 'undecodable'

-- step: all
-- The times before which keys of unique jobs are not free.
UPDATE queue_unique_keys SET free_at = free_at - $1 * interval '1 microsecond' WHERE free_at IS NOT NULL AND job_id > $2

-- name: adopt
-- Schedules whose next tick is to be computed count from now on, in a test's time. $1: microseconds that the test is
-- ahead of the clock
UPDATE queue_schedules SET changed_at = now() + $1 * interval '1 microsecond' WHERE next_at = timestamptz 'epoch'
