-- The first waiting rows behind a lane, by lane. The engines have a skip scan of their own ("Using index for group-by"), but
-- choose it by statistics that may be older than the rows (MariaDB: also not for a prepared statement that it has run
-- before), and else walk over all rows. This one reads what its limit says, whatever they know of the table.
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(l.run_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), COUNT(*), MAX(p.queue IS NOT NULL)
FROM (
    SELECT kind, queue, priority, run_at FROM queue_jobs FORCE INDEX (queue_jobs_waiting)
    WHERE worker_id = 0 AND kind IN (/* kinds */)
      AND (kind > $1 OR (kind = $1 AND queue > $2) OR (kind = $1 AND queue = $2 AND priority > $3))
    ORDER BY kind, queue, priority, run_at, id
    LIMIT $4
) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
GROUP BY l.kind, l.queue, l.priority
ORDER BY l.kind, l.queue, l.priority
