-- Enqueues one job. Fails in a session that would change its text: see settings.rs.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, $5::json)
RETURNING id
