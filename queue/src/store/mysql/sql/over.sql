-- History rows whose retention has passed. No lock: a finished row never changes, it is only removed. A locking read
-- would also look up each row by its key, and check each dead entry for locks.
SELECT id
FROM queue_history FORCE INDEX (queue_history_finished)
WHERE finished_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
ORDER BY finished_at
LIMIT $2
