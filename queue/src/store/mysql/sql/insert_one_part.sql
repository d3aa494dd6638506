-- On the caller's connection, which says itself when to commit. An error in a session that would change its text.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (IF(@@character_set_client = 'utf8mb4', $1, NULL), $2, $3, $4, $5)
