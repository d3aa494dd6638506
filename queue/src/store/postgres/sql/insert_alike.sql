-- Inserts jobs that differ only in their arguments, in order.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, args::json
    FROM unnest($5::text[]) AS n (args)
RETURNING id
