-- The keys of dead letters, which are locked.
SELECT n.job_id, n.kind, n.unique_key, n.held_until, j.fence
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = w.id
