-- A page of waiting and running jobs, in primary key order. NULL for kind, queue or state matches any.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(worker_id <> 0, claimed_at, NULL)),
           CAST(NULL AS SIGNED), NULLIF(worker_id, 0),
       cancel_requested_at IS NOT NULL, CAST(NULL AS CHAR)
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running'
                     WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled'
                     ELSE 'ready' END AS state
      FROM queue_jobs) AS j
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
ORDER BY id LIMIT $5
