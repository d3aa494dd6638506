SELECT id FROM queue_history FORCE INDEX (queue_history_finished)
WHERE finished_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
ORDER BY finished_at
LIMIT $2
FOR UPDATE SKIP LOCKED
