-- The first and the last unique job of which anything is noted.
SELECT (SELECT MIN(job_id) FROM queue_unique_jobs), (SELECT MAX(job_id) FROM queue_unique_jobs)
