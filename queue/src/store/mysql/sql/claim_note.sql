INSERT INTO queue_claims (worker_id, job_ids) VALUES ($1, $2)
