-- sqlite3 jobs.sqlite < examples/producers/enqueue.sqlite.sql
.timeout 5000
-- A kind and arguments are enough.
INSERT INTO queue_jobs (kind, args) VALUES ('greet', '{"name": "Ada"}');
-- Together with your own data: both rows, or neither.
BEGIN IMMEDIATE;
-- … your own INSERT …
INSERT INTO queue_jobs (kind, args, queue, max_retries) VALUES ('greet', json_object('name', 'Grace'), 'mail', 3);
COMMIT;
-- In a second. Times are milliseconds since 1970.
INSERT INTO queue_jobs (kind, args, run_at)
VALUES ('greet', '{"name": "Barbara"}', unixepoch('now', '+1 second') * 1000);
-- What the queue looks like now.
SELECT kind, queue, state, jobs FROM queue_stats ORDER BY kind, queue, state;
