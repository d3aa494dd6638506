-- Lanes, from the first few waiting rows of each. The engines' own skip scan ("Using index for group-by") depends on
-- statistics, which may be older than the rows. Without it they walk over all rows, as MariaDB always does when it runs
-- a prepared statement again. This statement reads no more than its limits, whatever the statistics say.
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(l.run_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), MIN(l.id), COUNT(*), MAX(p.queue IS NOT NULL), l.ask
FROM (/* lanes */) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
GROUP BY l.ask, l.kind, l.queue, l.priority
ORDER BY l.ask, l.kind, l.queue, l.priority
