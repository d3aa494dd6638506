-- A skip scan of the claim index: one probe per lane, kinds outside, so that foreign kinds are never visited.
WITH RECURSIVE lanes AS (
    SELECT head.*
    FROM json_array_elements_text($1::json) AS served(kind)
    CROSS JOIN LATERAL (
        SELECT j.kind, j.queue, j.priority, j.run_at, j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = served.kind
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
SELECT l.kind, l.queue, l.priority, l.run_at, now(), l.id
FROM lanes AS l
WHERE NOT EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = l.queue)
