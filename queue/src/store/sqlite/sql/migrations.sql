-- Which migrations have run; a program that knows no version from compatible_since on must not touch the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    compatible_since INTEGER NOT NULL
) STRICT;
