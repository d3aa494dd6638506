DELETE FROM queue_attempts WHERE job_id = ANY ($1::bigint[])
