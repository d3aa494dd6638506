-- The keys of dead letters.
SELECT n.job_id, n.kind, n.unique_key, n.held_until, j.fence
FROM json_each($1) AS w CROSS JOIN queue_unique_jobs AS n ON n.job_id = w.value
CROSS JOIN queue_dead AS j ON j.id = w.value
