-- The migrations that have run. A program that knows only versions before compatible_since must not use the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version int NOT NULL PRIMARY KEY,
    name varchar(128) NOT NULL,
    applied_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    compatible_since int NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
