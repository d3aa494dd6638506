-- The state of the schema, for migrations and checks.

-- name: migrations
-- The migrations that have run. A program that knows only versions before compatible_since must not use the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    compatible_since INTEGER NOT NULL
) STRICT;

-- name: version
-- The schema's version, and a missing trigger: a copy of the tables may lack them. Ignores attached databases.
SELECT MAX(version), MAX(compatible_since),
       (SELECT name FROM (SELECT 'queue_history_takes' AS name UNION ALL SELECT 'queue_dead_takes')
        WHERE EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'queue_history')
          AND name NOT IN (SELECT name FROM main.sqlite_schema WHERE type = 'trigger'))
FROM queue_migrations

-- name: there
-- Tables, indexes, views and triggers whose names begin like ours, and columns of tables as `table.column`.
SELECT name FROM main.sqlite_schema WHERE name LIKE 'queue|_%' ESCAPE '|'
UNION ALL
SELECT s.name || '.' || c.name FROM main.sqlite_schema AS s CROSS JOIN pragma_table_info(s.name) AS c
WHERE s.type = 'table' AND s.name LIKE 'queue|_%' ESCAPE '|'

-- name: numbers
-- A row if ids were set back: the newest job has a lower id than a finished job enqueued a minute or more before.
SELECT 1
FROM (SELECT id, enqueued_at FROM queue_jobs ORDER BY id DESC LIMIT 1) AS new
JOIN (SELECT * FROM (SELECT id, enqueued_at FROM queue_history ORDER BY id DESC LIMIT 1)
      UNION ALL
      SELECT * FROM (SELECT id, enqueued_at FROM queue_dead ORDER BY id DESC LIMIT 1)) AS old
  ON new.id < old.id AND new.enqueued_at > old.enqueued_at + 60000
