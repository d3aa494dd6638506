-- Enqueues one job. Fails in a session that would change its text: see settings.rs. A delay counts from this statement,
-- not from the start of the transaction.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES (CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, $5::json,
        coalesce(timestamptz 'epoch' + $7 * interval '1 microsecond',
            statement_timestamp() + $6 * interval '1 microsecond'))
RETURNING id
