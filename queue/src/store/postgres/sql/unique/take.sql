-- Takes the keys that are free, and inserts their jobs. The others are locked. Each key is there once. A row: two
-- lists, the places of the new jobs (from 1) and their ids.
-- A key is free if its holder is over. ON CONFLICT sees the newest row of the key, but its subqueries see the snapshot
-- of the statement: a holder that came later would look as if it were over. So the snapshot must know the holder.
-- (IN instead of a join: PostgreSQL would expect many rows of a join and compile the statement first. That takes longer
-- than to run it. `s.job_id - k.job_id = 0` cannot be hashed: PostgreSQL probes the key instead of reading the table.)
WITH wanted AS MATERIALIZED (
    SELECT *, nextval((SELECT pg_get_serial_sequence('queue_jobs', 'id')::regclass)) AS id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::smallint[], $7::integer[], $8::text[],
            $9::bigint[], $10::bigint[], $11::smallint[])
        WITH ORDINALITY AS w (kind, key, until, at_least_us, queue, priority, max_retries, args, delay_us, run_at_us,
            features, ord)
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
    INSERT INTO queue_jobs (id, kind, queue, priority, max_retries, args, run_at, features) OVERRIDING SYSTEM VALUE
    SELECT w.id, w.kind, w.queue, w.priority, w.max_retries, w.args::json,
           coalesce(timestamptz 'epoch' + w.run_at_us * interval '1 microsecond',
                    statement_timestamp() + w.delay_us * interval '1 microsecond', now()), w.features
    FROM wanted AS w WHERE w.id IN (SELECT job_id FROM taken) ORDER BY w.id
)
SELECT array_agg(w.ord), array_agg(w.id) FROM wanted AS w WHERE w.id IN (SELECT job_id FROM taken)
