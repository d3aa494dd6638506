-- Without a lock: what is finished never changes, it is only removed, and to lock it would look up each row by its key as well. Nor
-- does this ask at the remains of what was removed before who may have locked them.
SELECT id
FROM queue_history FORCE INDEX (queue_history_finished)
WHERE finished_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
ORDER BY finished_at
LIMIT $2
