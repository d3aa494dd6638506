-- Inserts any number of jobs that use features. Ids come back in the order of the jobs. Delays: see
-- insert_one_later.sql.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at, features)
SELECT value ->> 'kind', value ->> 'queue', value ->> 'priority', value ->> 'max_retries', value ->> 'args',
       coalesce((value ->> 'run_at_us' + 999) / 1000,
                CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                + iif(value ->> 'delay_us' > 0, (value ->> 'delay_us' + 2999) / 1000, 0)),
       coalesce(value ->> 'features', 0)
FROM json_each($1)
ORDER BY key
RETURNING id
