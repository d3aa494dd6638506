INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt + (d.value ->> 'doubts'),
       j.fence, j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, now, d.value ->> 'error'
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' = 'dead'
