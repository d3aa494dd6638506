-- Locks the schedules that are still due. $1: ids, $2: microseconds that a test is ahead of the clock
SELECT id FROM queue_schedules
WHERE id = ANY ($1) AND next_at <= now() + $2 * interval '1 microsecond'
ORDER BY id
FOR UPDATE SKIP LOCKED
