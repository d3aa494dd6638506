-- mariadb shop < examples/producers/enqueue.mysql.sql          (or: mysql shop < …)
-- A kind and arguments are enough.
INSERT INTO queue_jobs (kind, args) VALUES ('greet', '{"name": "Ada"}');
-- Together with your own data: both rows, or neither.
START TRANSACTION;
-- … your own INSERT …
INSERT INTO queue_jobs (kind, args, queue, max_retries) VALUES ('greet', JSON_OBJECT('name', 'Grace'), 'mail', 3);
COMMIT;
-- In a second. Times are UTC: UTC_TIMESTAMP(6), never NOW().
INSERT INTO queue_jobs (kind, args, run_at)
VALUES ('greet', '{"name": "Barbara"}', UTC_TIMESTAMP(6) + INTERVAL 1 SECOND);
-- What the queue looks like now.
SELECT kind, queue, state, jobs FROM queue_stats ORDER BY kind, queue, state;
