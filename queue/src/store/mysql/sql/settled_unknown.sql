-- Deletes all claim records without held jobs, in a new session or when the worker asks for it ($6 = 1).
DELETE c
FROM (
    SELECT told.id
    FROM queue_claims AS told FORCE INDEX (queue_claims_worker)
    STRAIGHT_JOIN JSON_TABLE(told.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
    LEFT JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id AND j.worker_id = $1
    WHERE told.worker_id = $1 AND ($6 = 1 OR CONNECTION_ID() <> $7)
    GROUP BY told.id
    HAVING COUNT(j.id) = 0
) AS nothing
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = nothing.id
