-- Waiting rows from the begin of lanes, by lane. The engines have a skip scan of their own ("Using index for group-by"), but
-- choose it by statistics that may be older than the rows (MariaDB: also not for a prepared statement that it has run
-- before), and else walk over all rows. This one reads what its limits say, whatever they know of the table.
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(l.run_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), MIN(l.id), COUNT(*), MAX(p.queue IS NOT NULL), l.ask
FROM (/* lanes */) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
GROUP BY l.ask, l.kind, l.queue, l.priority
ORDER BY l.ask, l.kind, l.queue, l.priority
