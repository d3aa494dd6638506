-- psql "$DATABASE_URL" -f examples/producers/enqueue.postgres.sql
-- A kind and arguments are enough.
INSERT INTO queue_jobs (kind, args) VALUES ('greet', '{"name": "Ada"}');
-- Together with your own data: both rows, or neither.
BEGIN;
-- … your own INSERT …
INSERT INTO queue_jobs (kind, args, queue, max_retries) VALUES ('greet', json_build_object('name', 'Grace'), 'mail', 3);
COMMIT;
-- In a second.
INSERT INTO queue_jobs (kind, args, run_at) VALUES ('greet', '{"name": "Barbara"}', now() + interval '1 second');
-- A hint, after the commit: idle workers look at once instead of with their next heartbeat (2.5 s).
SELECT pg_notify('queue_jobs', '');
-- What the queue looks like now.
SELECT kind, queue, state, jobs FROM queue_stats ORDER BY kind, queue, state;
