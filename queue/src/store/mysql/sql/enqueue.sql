-- How jobs are written.

-- name: insert_one
-- Enqueues through a pool. Fails in a session that would not commit it or would change its text: see settings.rs.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (IF(@@autocommit AND @@completion_type = 'NO_CHAIN' AND @@character_set_client = 'utf8mb4', $1, NULL),
    $2, $3, $4, $5)

-- name: insert_one_part
-- Enqueues on the caller's connection, without a commit. Fails in a session that would change its text.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (IF(@@character_set_client = 'utf8mb4', $1, NULL), $2, $3, $4, $5)

-- name: insert_one_later
-- Enqueues through a pool. Fails in a session that would not commit it or would change its text: see settings.rs.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES (IF(@@autocommit AND @@completion_type = 'NO_CHAIN' AND @@character_set_client = 'utf8mb4', $1, NULL),
    $2, $3, $4, $5,
        COALESCE(TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND, UTC_TIMESTAMP(6) + INTERVAL $6 MICROSECOND))

-- name: insert_one_later_part
-- Enqueues on the caller's connection, without a commit. Fails in a session that would change its text.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES (IF(@@character_set_client = 'utf8mb4', $1, NULL), $2, $3, $4, $5,
        COALESCE(TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND, UTC_TIMESTAMP(6) + INTERVAL $6 MICROSECOND))
