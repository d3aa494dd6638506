-- Which of these jobs the worker still holds under these fences. Takes no locks.
SELECT j.id FROM json_each($2) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
WHERE +j.worker_id = $1 AND j.fence = d.value ->> 'fence'
