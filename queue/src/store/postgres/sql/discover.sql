-- A skip scan of the claim index: one probe per lane. It starts from the served kinds, so it never visits other kinds.
-- It begins behind the lane given for each kind, advances all kinds one lane at a time, and ends after $2 lanes.
WITH RECURSIVE lanes AS (
    SELECT head.*
    FROM json_to_recordset($1::json) AS served (kind text, queue text, priority smallint)
    CROSS JOIN LATERAL (
        SELECT j.kind, j.queue, j.priority, j.run_at, j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = served.kind AND (j.queue, j.priority) > (served.queue, served.priority)
        ORDER BY j.queue, j.priority, j.run_at, +j.id LIMIT 1
    ) AS head
    UNION ALL
    SELECT head.*
    FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT j.kind, j.queue, j.priority, j.run_at, j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = l.kind AND (j.queue, j.priority) > (l.queue, l.priority)
        ORDER BY j.queue, j.priority, j.run_at, +j.id LIMIT 1
    ) AS head
)
SELECT l.kind, l.queue, l.priority, l.run_at, now(), l.id,
    EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = l.queue)
FROM (SELECT * FROM lanes LIMIT $2) AS l
