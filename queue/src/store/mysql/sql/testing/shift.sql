-- step: find
-- Moves the times of all waiting jobs into the past. This first read takes no locks, and the update names rows that
-- exist, so that no other transaction is kept waiting.
SELECT id FROM queue_jobs WHERE worker_id = 0

-- step: found
-- $1: by how many microseconds, $2: the ids.
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.run_at = j.run_at - INTERVAL $1 MICROSECOND, j.enqueued_at = j.enqueued_at - INTERVAL $1 MICROSECOND
