SELECT args FROM queue_jobs WHERE id = $1 AND +worker_id = $2 AND fence = $3
