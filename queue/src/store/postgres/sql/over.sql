SELECT id FROM queue_history
WHERE finished_at < now() - $1 * interval '1 microsecond'
ORDER BY finished_at
LIMIT $2
FOR UPDATE SKIP LOCKED
