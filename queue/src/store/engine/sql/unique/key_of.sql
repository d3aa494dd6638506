SELECT unique_key FROM queue_unique_jobs WHERE job_id = $1
