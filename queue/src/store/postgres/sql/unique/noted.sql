-- The keys of jobs that were just sent back.
SELECT n.job_id, n.kind, n.unique_key, n.held_until, j.fence
FROM queue_unique_jobs AS n JOIN queue_jobs AS j ON j.id = n.job_id
WHERE n.job_id = ANY ($1::bigint[])
