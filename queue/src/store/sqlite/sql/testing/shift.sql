-- Moves the times of all waiting jobs into the past. $1: by how many microseconds.
UPDATE queue_jobs SET run_at = run_at - $1 / 1000, enqueued_at = enqueued_at - $1 / 1000 WHERE worker_id = 0
