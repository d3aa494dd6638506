-- step: all
DELETE FROM queue_history WHERE id = ANY ($1::bigint[])

-- step: all
DELETE FROM queue_attempts WHERE job_id = ANY ($1::bigint[])
