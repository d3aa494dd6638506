SELECT id, lease FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id = $1 AND worker_id <> 0
