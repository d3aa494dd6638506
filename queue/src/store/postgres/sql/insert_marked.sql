-- Inserts any number of jobs that use features, in order. A delay counts from this statement, not from the start of the
-- transaction.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at, features)
SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN kind END,
    queue, priority, max_retries, args::json,
       coalesce(timestamptz 'epoch' + at_us * interval '1 microsecond',
                statement_timestamp() + delay_us * interval '1 microsecond', now()), features
FROM unnest($1::text[], $2::text[], $3::smallint[], $4::integer[], $5::text[], $6::bigint[], $7::bigint[],
        $8::smallint[])
    WITH ORDINALITY AS n (kind, queue, priority, max_retries, args, delay_us, at_us, features, ord)
ORDER BY ord
RETURNING id
