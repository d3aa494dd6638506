-- Enqueues through a pool. Fails in a session that would not commit it or would change its text: see settings.rs.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (IF(@@autocommit AND @@completion_type = 'NO_CHAIN' AND @@character_set_client = 'utf8mb4', $1, NULL),
    $2, $3, $4, $5)
