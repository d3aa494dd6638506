-- A skip scan of the claim index: one probe per lane. It starts from the served kinds, so it never visits other kinds.
-- It begins behind the lane given for each kind, advances all kinds one lane at a time, and ends after $2 lanes. The
-- probes are scalar subqueries that return ids, because there is no LATERAL. Each has two parts: (queue, priority) >
-- (..., ...) would walk the whole lane.
WITH RECURSIVE head (id) AS (
    SELECT coalesce(
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = json_extract(served.value, '$.kind')
           AND j.queue = json_extract(served.value, '$.queue') AND j.priority > json_extract(served.value, '$.priority')
         ORDER BY j.priority, j.run_at, j.id LIMIT 1),
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = json_extract(served.value, '$.kind')
           AND j.queue > json_extract(served.value, '$.queue')
         ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT 1))
    FROM json_each($1) AS served
    UNION ALL
    SELECT coalesce(
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority > l.priority
         ORDER BY j.priority, j.run_at, j.id LIMIT 1),
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue > l.queue
         ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT 1))
    FROM head CROSS JOIN queue_jobs AS l ON l.id = head.id
    LIMIT +$2
)
SELECT l.kind, l.queue, l.priority, l.run_at * 1000,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000, l.id,
       EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = l.queue)
FROM head CROSS JOIN queue_jobs AS l ON l.id = head.id
