-- The migrations that have run. A program that knows only versions before compatible_since must not use the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    compatible_since INTEGER NOT NULL
) STRICT;
