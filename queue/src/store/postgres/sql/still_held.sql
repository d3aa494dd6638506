-- Which of these jobs the worker still holds under these fences. Takes no locks.
SELECT held.id
FROM json_to_recordset($2::json) AS d (id bigint, fence integer)
CROSS JOIN LATERAL (
    SELECT j.id FROM queue_jobs AS j
    WHERE j.id = d.id AND j.worker_id = $1 AND j.fence = d.fence LIMIT 1) AS held
