SELECT job_id FROM queue_unique_keys WHERE kind = $1 AND unique_key = $2 AND job_id <> 0
