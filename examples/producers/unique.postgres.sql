-- psql "$DATABASE_URL" -f examples/producers/unique.postgres.sql
-- A unique job: run this as often as you like, and while one waits or runs, there is no second one (docs/sql.md).
WITH taken AS (
    INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id, held_until, free_at)
    VALUES ('greet', 'katherine', nextval(pg_get_serial_sequence('queue_jobs', 'id')), 'end', NULL)
    ON CONFLICT (kind, unique_key) DO UPDATE
    SET job_id = excluded.job_id, held_until = excluded.held_until, fence = 0, free_at = excluded.free_at
    WHERE (k.free_at IS NULL OR k.free_at <= statement_timestamp())
      AND NOT EXISTS (SELECT FROM queue_jobs AS j
          WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence))
      AND EXISTS (SELECT FROM queue_unique_keys AS s WHERE s.kind = k.kind AND s.unique_key = k.unique_key
          AND s.job_id - k.job_id = 0 AND s.fence = k.fence)
    RETURNING k.*
), noted AS (
    INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
    SELECT job_id, kind, unique_key, held_until FROM taken
)
INSERT INTO queue_jobs (id, kind, args, features) OVERRIDING SYSTEM VALUE
SELECT job_id, kind, '{"name": "Katherine"}', 1 FROM taken
RETURNING id;
-- No row above: this job has the key. No row at all: start again.
SELECT job_id FROM queue_unique_keys AS k
WHERE kind = 'greet' AND unique_key = 'katherine' AND (free_at > statement_timestamp() OR EXISTS (
    SELECT FROM queue_jobs AS j
    WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)));
