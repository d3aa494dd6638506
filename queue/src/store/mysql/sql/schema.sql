-- The state of the schema, for migrations and checks.

-- name: migrations
-- The migrations that have run. A program that knows only versions before compatible_since must not use the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version int NOT NULL PRIMARY KEY,
    name varchar(128) NOT NULL,
    applied_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    compatible_since int NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- name: version
SELECT MAX(version), MAX(compatible_since), NULL FROM queue_migrations

-- name: there
-- Tables and views whose names begin like ours: name, type and columns.
SELECT t.table_name, t.table_type,
       (SELECT GROUP_CONCAT(c.column_name ORDER BY c.ordinal_position) FROM information_schema.columns AS c
        WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name)
FROM information_schema.tables AS t
WHERE t.table_schema = DATABASE() AND t.table_name LIKE 'queue|_%' ESCAPE '|'
ORDER BY t.table_name

-- name: numbers
-- A row if ids were set back: the newest job has a lower id than a finished job enqueued a minute or more before.
SELECT 1
FROM (SELECT id, enqueued_at FROM queue_jobs ORDER BY id DESC LIMIT 1) AS new
JOIN ((SELECT id, enqueued_at FROM queue_history ORDER BY id DESC LIMIT 1)
      UNION ALL
      (SELECT id, enqueued_at FROM queue_dead ORDER BY id DESC LIMIT 1)) AS old
  ON new.id < old.id AND new.enqueued_at > old.enqueued_at + INTERVAL 1 MINUTE
