-- The migrations that have run. A program that knows only versions before compatible_since must not use the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    compatible_since integer NOT NULL
);
