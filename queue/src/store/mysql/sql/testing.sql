-- What tests of users move.

-- name: shift
-- step: find
-- Moves the times of waiting jobs into the past. $1: only jobs with an id above this. This first read takes no locks,
-- and the update names rows that exist, so that no other transaction is kept waiting.
SELECT id FROM queue_jobs WHERE worker_id = 0 AND id > $1

-- step: found
-- $1: by how many microseconds, $2: the ids.
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.run_at = j.run_at - INTERVAL $1 MICROSECOND, j.enqueued_at = j.enqueued_at - INTERVAL $1 MICROSECOND

-- step: find
-- Their attempts that could not decode the arguments: these count from the first one.
SELECT DISTINCT a.job_id
FROM queue_attempts AS a
JOIN queue_jobs AS j ON j.id = a.job_id
WHERE j.worker_id = 0 AND j.id > $1 AND a.outcome = 'undecodable'

-- step: found
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = d.id
SET a.started_at = a.started_at - INTERVAL $1 MICROSECOND, a.ended_at = a.ended_at - INTERVAL $1 MICROSECOND
WHERE a.outcome = 'undecodable'

-- step: find
-- The times before which keys of unique jobs are not free.
SELECT job_id FROM queue_unique_keys WHERE free_at IS NOT NULL AND job_id > $1

-- step: found
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = d.id
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = n.kind AND k.unique_key = n.unique_key
SET k.free_at = k.free_at - INTERVAL $1 MICROSECOND
WHERE k.job_id = d.id

-- name: adopt
-- Schedules whose next tick is to be computed count from now on, in a test's time. $1: microseconds that the test is
-- ahead of the clock
UPDATE queue_schedules SET changed_at = UTC_TIMESTAMP(6) + INTERVAL $1 MICROSECOND WHERE next_at = '1970-01-01'
