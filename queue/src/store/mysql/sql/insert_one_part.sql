-- Enqueues on the caller's connection, without a commit. Fails in a session that would change its text.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (IF(@@character_set_client = 'utf8mb4', $1, NULL), $2, $3, $4, $5)
