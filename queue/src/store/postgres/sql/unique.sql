-- The keys of unique jobs.

-- name: take_one
-- Takes a key if it is free, and inserts its job: see `take`. A row: the job's id. $12: whether to look first. Then a
-- key that is taken in the statement's snapshot is not written, so not locked. (Values instead of lists: PostgreSQL
-- would plan a list of unknown length anew each time. Subqueries that cannot be hashed: it would read the whole table.)
WITH wanted AS MATERIALIZED (
    SELECT w.*, nextval((SELECT pg_get_serial_sequence('queue_jobs', 'id')::regclass)) AS id
    FROM (SELECT $1::text AS kind, $2::text AS key, $3::text AS until, $4::bigint AS at_least_us) AS w
    WHERE NOT $12 OR NOT EXISTS (
        SELECT FROM (SELECT * FROM queue_unique_keys AS k WHERE k.kind = w.kind AND k.unique_key = w.key OFFSET 0) AS k
        WHERE k.free_at > statement_timestamp() OR (SELECT true FROM queue_jobs AS j
            WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)))
), taken AS (
    INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id, held_until, free_at)
    SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN kind END, key, id, until,
        statement_timestamp() + at_least_us * interval '1 microsecond'
    FROM wanted
    ON CONFLICT (kind, unique_key) DO UPDATE
    SET job_id = excluded.job_id, held_until = excluded.held_until, fence = 0, free_at = excluded.free_at
    WHERE (k.free_at IS NULL OR k.free_at <= statement_timestamp())
      AND NOT EXISTS (SELECT FROM queue_jobs AS j
          WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence))
      AND EXISTS (SELECT FROM queue_unique_keys AS s
          WHERE s.kind = k.kind AND s.unique_key = k.unique_key AND s.job_id - k.job_id = 0 AND s.fence = k.fence)
    RETURNING k.kind, k.unique_key, k.job_id, k.held_until
), noted AS (
    INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
    SELECT job_id, kind, unique_key, held_until FROM taken
)
INSERT INTO queue_jobs (id, kind, queue, priority, max_retries, args, run_at, features, meta) OVERRIDING SYSTEM VALUE
SELECT job_id, kind, $5, $6, $7, $8::text::json,
       coalesce(timestamptz 'epoch' + $10::bigint * interval '1 microsecond',
                statement_timestamp() + $9::bigint * interval '1 microsecond', now()), $11, $13
FROM taken
RETURNING id

-- name: take
-- Takes the keys that are free, and inserts their jobs. The others are locked. Each key is there once. A row: two
-- lists, the places of the new jobs (from 1) and their ids.
-- A key is free if its holder is over. ON CONFLICT sees the newest row of the key, but its subqueries see the snapshot
-- of the statement: a holder that came later would look as if it were over. So the snapshot must know the holder.
-- (IN instead of a join: PostgreSQL would expect many rows of a join and compile the statement first. That takes longer
-- than to run it. `s.job_id - k.job_id = 0` cannot be hashed: PostgreSQL probes the key instead of reading the table.)
WITH wanted AS MATERIALIZED (
    SELECT *, nextval((SELECT pg_get_serial_sequence('queue_jobs', 'id')::regclass)) AS id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::smallint[], $7::integer[], $8::text[],
            $9::bigint[], $10::bigint[], $11::smallint[], $12::text[])
        WITH ORDINALITY AS w (kind, key, until, at_least_us, queue, priority, max_retries, args, delay_us, run_at_us,
            features, meta, ord)
), taken AS (
    INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id, held_until, free_at)
    SELECT CASE WHEN current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII') THEN kind END, key, id, until,
        statement_timestamp() + at_least_us * interval '1 microsecond'
    FROM wanted ORDER BY kind COLLATE "C", key COLLATE "C"
    ON CONFLICT (kind, unique_key) DO UPDATE
    SET job_id = excluded.job_id, held_until = excluded.held_until, fence = 0, free_at = excluded.free_at
    WHERE (k.free_at IS NULL OR k.free_at <= statement_timestamp())
      AND NOT EXISTS (SELECT FROM queue_jobs AS j
          WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence))
      AND EXISTS (SELECT FROM queue_unique_keys AS s
          WHERE s.kind = k.kind AND s.unique_key = k.unique_key AND s.job_id - k.job_id = 0 AND s.fence = k.fence)
    RETURNING k.kind, k.unique_key, k.job_id, k.held_until
), noted AS (
    INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
    SELECT job_id, kind, unique_key, held_until FROM taken ORDER BY job_id
), inserted AS (
    INSERT INTO queue_jobs (id, kind, queue, priority, max_retries, args, run_at, features, meta)
        OVERRIDING SYSTEM VALUE
    SELECT w.id, w.kind, w.queue, w.priority, w.max_retries, w.args::json,
           coalesce(timestamptz 'epoch' + w.run_at_us * interval '1 microsecond',
                    statement_timestamp() + w.delay_us * interval '1 microsecond', now()), w.features,
           w.meta
    FROM wanted AS w WHERE w.id IN (SELECT job_id FROM taken) ORDER BY w.id
)
SELECT array_agg(w.ord), array_agg(w.id) FROM wanted AS w WHERE w.id IN (SELECT job_id FROM taken)

-- name: lock
-- Inserts the missing keys, and locks all of them. $1: a list of `{kind, key}`, in the order in which everybody locks.
INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id)
SELECT kind, key, 0 FROM json_to_recordset($1::json) AS w (kind text, key text)
ON CONFLICT (kind, unique_key) DO UPDATE SET job_id = k.job_id

-- name: holders
-- Who has these keys. $1: a list of `{place, kind, key}`.
SELECT w.place, k.job_id, CASE WHEN k.held_until = 'start' THEN k.fence END,
       (SELECT CASE WHEN j.worker_id = 0 THEN 1 ELSE 2 END FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       true, coalesce(k.free_at > statement_timestamp(), false)
FROM json_to_recordset($1::json) AS w (place integer, kind text, key text)
CROSS JOIN LATERAL (
    SELECT * FROM queue_unique_keys AS k WHERE k.kind = w.kind AND k.unique_key = w.key OFFSET 0
) AS k

-- name: give
-- Gives locked keys to jobs that are sent back. $1: a list of `{kind, key, job_id, until, fence}`.
UPDATE queue_unique_keys AS k SET job_id = w.job_id, held_until = w.until, fence = w.fence,
    free_at = CASE WHEN k.job_id = w.job_id THEN k.free_at END
FROM json_to_recordset($1::json) AS w (kind text, key text, job_id bigint, until text, fence integer)
WHERE k.kind = w.kind AND k.unique_key = w.key

-- name: hold
-- Locks jobs that wait, so that they start after this transaction. A job that runs is not locked: its end would wait.
SELECT id, worker_id, fence FROM queue_jobs WHERE id = ANY ($1::bigint[]) AND worker_id = 0 ORDER BY id FOR UPDATE

-- name: replace
-- Gives a waiting job other values, which begin with no attempt. Without a due time, it is due at once, and keeps its
-- place if it is due. $1: a list
-- of `{id, fence, queue, priority, max_retries, args, meta, delay_us, run_at_us, at_most_us}`; fence: NULL for any.
UPDATE queue_jobs AS j SET queue = w.queue, priority = w.priority, max_retries = w.max_retries, args = w.args::json,
    meta = w.meta, attempt = 0,
    run_at = least(coalesce(timestamptz 'epoch' + w.run_at_us * interval '1 microsecond',
                            statement_timestamp() + w.delay_us * interval '1 microsecond',
                            least(j.run_at, statement_timestamp())),
                   j.enqueued_at + w.at_most_us * interval '1 microsecond')
FROM json_to_recordset($1::json) AS w (id bigint, fence integer, queue text, priority smallint, max_retries integer,
    args text, meta text, delay_us bigint, run_at_us bigint, at_most_us bigint)
WHERE j.id = w.id AND j.worker_id = 0 AND (w.fence IS NULL OR j.fence = w.fence)

-- name: noted
-- The keys of jobs that were just sent back.
SELECT n.job_id, n.kind, n.unique_key, n.held_until, j.fence
FROM queue_unique_jobs AS n JOIN queue_jobs AS j ON j.id = n.job_id
WHERE n.job_id = ANY ($1::bigint[])

-- name: over
-- Which jobs are nowhere any more. $1: the last job of the round before; $2: how many to look at.
SELECT n.job_id,
       NOT EXISTS (SELECT FROM queue_jobs AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT FROM queue_history AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT FROM queue_dead AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT FROM queue_unique_keys AS k WHERE k.kind = n.kind AND k.unique_key = n.unique_key
           AND k.job_id = n.job_id AND k.free_at > now())
FROM (SELECT * FROM queue_unique_jobs WHERE job_id > $1 ORDER BY job_id LIMIT $2) AS n
ORDER BY n.job_id

-- name: sweep
-- step: find
-- Locks the keys that these jobs have. They are nowhere any more. A key whose time is not over stays. What others lock
-- is left for the next time: a sweep waits for nobody.
SELECT n.job_id FROM queue_unique_jobs AS n
JOIN queue_unique_keys AS k ON k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id
WHERE n.job_id = ANY ($1::bigint[]) AND (k.free_at IS NULL OR k.free_at <= now())
FOR UPDATE OF k SKIP LOCKED

-- step: found
DELETE FROM queue_unique_keys AS k USING queue_unique_jobs AS n
WHERE n.job_id = ANY ($1::bigint[]) AND k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id

-- step: all
-- What was noted of them, unless their key is still there.
DELETE FROM queue_unique_jobs AS n
WHERE n.job_id = ANY ($1::bigint[]) AND NOT EXISTS (
    SELECT FROM queue_unique_keys AS k
    WHERE k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id)
