-- What removes finished jobs.

-- name: over
SELECT id FROM queue_history
WHERE finished_at < now() - $1 * interval '1 microsecond'
ORDER BY finished_at
LIMIT $2
FOR UPDATE SKIP LOCKED

-- name: purge
-- step: all
DELETE FROM queue_history WHERE id = ANY ($1::bigint[])

-- step: all
DELETE FROM queue_attempts WHERE job_id = ANY ($1::bigint[])
