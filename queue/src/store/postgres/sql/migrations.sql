-- Which migrations have run; a program that knows no version from compatible_since on must not touch the tables.
CREATE TABLE IF NOT EXISTS queue_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    compatible_since integer NOT NULL
);
