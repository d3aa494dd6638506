-- How jobs are written.

-- name: insert_one
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args) VALUES ($1, $2, $3, $4, $5)

-- name: insert_one_later
-- Rounding makes this clock up to 2 ms slow. A delay is lengthened by that, so it is never too short.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES ($1, $2, $3, $4, $5,
        coalesce(($7 + 999) / 1000,
                 CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + iif($6 > 0, ($6 + 2999) / 1000, 0)))

-- name: insert_alike
-- Inserts jobs that differ only in their arguments, in order. json_each gives each element as text, quoted or not. The
-- clock is read once, not twice per row.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at, enqueued_at)
SELECT $1, $2, $3, $4, value, now, now
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock CROSS JOIN json_each($5)

-- name: insert
-- Inserts any number of jobs. Ids come back in the order of the jobs. Delays: see `insert_one_later`.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
SELECT value ->> 'kind', value ->> 'queue', value ->> 'priority', value ->> 'max_retries', value ->> 'args',
       coalesce((value ->> 'run_at_us' + 999) / 1000,
                CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                + iif(value ->> 'delay_us' > 0, (value ->> 'delay_us' + 2999) / 1000, 0))
FROM json_each($1)
ORDER BY key
RETURNING id

-- name: insert_with_meta
-- As `insert`, for jobs of which some have metadata.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, meta, run_at)
SELECT value ->> 'kind', value ->> 'queue', value ->> 'priority', value ->> 'max_retries', value ->> 'args',
       value ->> 'meta',
       coalesce((value ->> 'run_at_us' + 999) / 1000,
                CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                + iif(value ->> 'delay_us' > 0, (value ->> 'delay_us' + 2999) / 1000, 0))
FROM json_each($1)
ORDER BY key
RETURNING id
