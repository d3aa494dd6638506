-- The index is named so that no other one is considered: with `worker_id = 0` beside it, this was planned anew each time.
SELECT id, fence FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id = $1 AND worker_id <> 0
