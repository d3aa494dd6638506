-- A single enqueue, with its notification.
WITH new AS (
    INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
    VALUES (CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, $5::json)
        RETURNING id
)
SELECT id FROM new CROSS JOIN (SELECT pg_notify('queue_jobs', $6)) AS signal
