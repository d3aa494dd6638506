-- A page of completed and cancelled jobs, in primary key order. NULL for kind, queue or state matches any.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error
FROM queue_history
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
ORDER BY id LIMIT $5
