-- The state of the schema, for migrations and checks.

-- name: migrations
-- The migrations that have run. A program that knows only versions before compatible_since must not use the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    compatible_since integer NOT NULL
);

-- name: version
SELECT MAX(version), MAX(compatible_since), NULL FROM queue_migrations

-- name: there
-- Tables, indexes, views and sequences whose names begin like ours, and their columns as `table.column`.
WITH ours AS (
    SELECT c.oid, c.relname::text AS name
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relname LIKE 'queue|_%' ESCAPE '|'
)
SELECT name FROM ours
UNION ALL
SELECT name || '.' || a.attname FROM ours JOIN pg_attribute AS a ON a.attrelid = oid AND a.attnum > 0

-- name: numbers
-- A row if ids were set back: the newest job has a lower id than a finished job enqueued a minute or more before.
SELECT 1
FROM (SELECT id, enqueued_at FROM queue_jobs ORDER BY id DESC LIMIT 1) AS new
JOIN ((SELECT id, enqueued_at FROM queue_history ORDER BY id DESC LIMIT 1)
      UNION ALL
      (SELECT id, enqueued_at FROM queue_dead ORDER BY id DESC LIMIT 1)) AS old
  ON new.id < old.id AND new.enqueued_at > old.enqueued_at + interval '1 minute'
