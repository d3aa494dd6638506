-- How jobs are written.

-- name: insert_one
-- Enqueues one job. Fails in a session that would change its text: see settings.rs.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
VALUES (CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, $5::json)
RETURNING id

-- name: insert_one_later
-- Enqueues one job. Fails in a session that would change its text: see settings.rs. A delay counts from this statement,
-- not from the start of the transaction.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES (CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, $5::json,
        coalesce(timestamptz 'epoch' + $7 * interval '1 microsecond',
            statement_timestamp() + $6 * interval '1 microsecond'))
RETURNING id

-- name: insert_and_notify
-- A single enqueue, with its notification.
WITH new AS (
    INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
    VALUES (CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, $5::json)
        RETURNING id
)
SELECT id FROM new CROSS JOIN (SELECT pg_notify('queue_jobs', $6)) AS signal

-- name: insert_alike
-- Inserts jobs that differ only in their arguments, in order.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN $1 END, $2, $3, $4, args::json
    FROM unnest($5::text[]) AS n (args)
RETURNING id

-- name: insert
-- Inserts any number of jobs, in order. A delay counts from this statement, not from the start of the transaction.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN kind END,
    queue, priority, max_retries, args::json,
       coalesce(timestamptz 'epoch' + at_us * interval '1 microsecond',
                statement_timestamp() + delay_us * interval '1 microsecond', now())
FROM unnest($1::text[], $2::text[], $3::smallint[], $4::integer[], $5::text[], $6::bigint[], $7::bigint[])
    WITH ORDINALITY AS n (kind, queue, priority, max_retries, args, delay_us, at_us, ord)
ORDER BY ord
RETURNING id

-- name: insert_with_meta
-- As `insert`, for jobs of which some have metadata.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at, meta)
SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN kind END,
    queue, priority, max_retries, args::json,
       coalesce(timestamptz 'epoch' + at_us * interval '1 microsecond',
                statement_timestamp() + delay_us * interval '1 microsecond', now()), meta
FROM unnest($1::text[], $2::text[], $3::smallint[], $4::integer[], $5::text[], $6::bigint[], $7::bigint[],
    $8::text[]) WITH ORDINALITY AS n (kind, queue, priority, max_retries, args, delay_us, at_us, meta, ord)
ORDER BY ord
RETURNING id
