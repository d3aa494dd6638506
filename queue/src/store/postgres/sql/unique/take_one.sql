-- Takes a key if it is free, and inserts its job: see take.sql. A row: the job's id. $12: whether to look first. Then a
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
INSERT INTO queue_jobs (id, kind, queue, priority, max_retries, args, run_at, features) OVERRIDING SYSTEM VALUE
SELECT job_id, kind, $5, $6, $7, $8::text::json,
       coalesce(timestamptz 'epoch' + $10::bigint * interval '1 microsecond',
                statement_timestamp() + $9::bigint * interval '1 microsecond', now()), $11
FROM taken
RETURNING id
