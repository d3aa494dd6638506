-- Names the index, so that the one with `worker_id = 0` is not considered: SQLite would plan this anew each time.
SELECT id, fence FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id = $1 AND worker_id <> 0
