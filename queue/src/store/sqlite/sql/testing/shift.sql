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
