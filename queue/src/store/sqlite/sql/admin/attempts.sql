-- The last 1000 recorded attempts of a job, up to the fence of its row, which was read just before. Nothing is recorded
-- later under a fence that is over, so they match that row.
SELECT attempt, worker_id, w.host || ':' || w.pid, a.started_at * 1000,
       ended_at * 1000, outcome, error
FROM queue_attempts AS a LEFT JOIN queue_workers AS w ON w.id = worker_id
WHERE job_id = $1 AND fence <= $2
ORDER BY fence DESC LIMIT 1000
