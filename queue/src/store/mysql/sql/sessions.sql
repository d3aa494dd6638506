-- Locks that the server releases with a connection: they show that a worker lives, or that it claims.

-- name: run
-- Identifies the server run by start time in seconds and server id. No row in the first second, in which an earlier run
-- may have ended. The engines keep the table in different schemas, and each takes the other's for a comment.
SELECT (TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6)) - CAST(variable_value AS SIGNED)) * 1000000
    + @@server_id % 1000000
FROM /*M! information_schema.global_status */ /*!80000 performance_schema.global_status */
WHERE variable_name = 'Uptime' AND CAST(variable_value AS SIGNED) > 0

-- name: hold
-- Takes a worker's liveness lock. Lock names are per server, not per database, and at most 64 characters.
SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_', $1), 0)

-- name: busy
SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_', $1), 0)

-- name: idle
SELECT RELEASE_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_', $1))

-- name: claim_lock
-- Takes the claim lock; waits up to 1 s. Lock names are per server, not per database, and at most 64 characters.
SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32)), 1)

-- name: claim_unlock
-- This session holds no other lock.
SELECT RELEASE_ALL_LOCKS()
