SELECT id, lease FROM queue_jobs WHERE worker_id = $1 AND worker_id <> 0
