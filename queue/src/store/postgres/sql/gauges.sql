-- Gauges: how much waits, runs and is dead, from bounded reads of the indexes.

-- name: lanes
-- The lanes that have jobs, at most 2,000: a skip scan of the claim index, one probe for each. `waiting` needs no first
-- time here.
WITH RECURSIVE lane AS (
    (SELECT kind, queue, priority FROM queue_jobs ORDER BY kind, queue, priority, run_at, (+id) LIMIT 1)
    UNION ALL
    SELECT head.*
    FROM lane AS l
    CROSS JOIN LATERAL (
        SELECT j.kind, j.queue, j.priority FROM queue_jobs AS j
        WHERE (j.kind, j.queue, j.priority) > (l.kind, l.queue, l.priority)
        ORDER BY j.kind, j.queue, j.priority, j.run_at, (+j.id) LIMIT 1
    ) AS head
)
SELECT kind, queue, priority, NULL::bigint FROM (SELECT * FROM lane LIMIT 2000) AS l

-- name: waiting
-- The first $2 + 1 waiting jobs of each of these lanes: the lane's place in the list, its first due time, now, how many
-- jobs it has (NULL: more than $2), and how many of them are not due yet.
SELECT t.ord - 1, head.first, now(), CASE WHEN head.jobs <= $2 THEN head.jobs END, head.later
FROM json_array_elements($1::json) WITH ORDINALITY AS t (lane, ord)
CROSS JOIN LATERAL json_to_record(t.lane) AS l (kind text, queue text, priority smallint)
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, count(*) FILTER (WHERE run_at > now()) AS later, min(run_at) AS first
    FROM (SELECT j.run_at FROM queue_jobs AS j
          WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority
          ORDER BY j.run_at, (+j.id) LIMIT $2 + 1) AS j
) AS head

-- name: waiting_in
-- One lane: how many of its jobs are due, and how many are not yet. NULL: $4 or more.
SELECT (SELECT nullif(count(*), $4) FROM (SELECT FROM queue_jobs AS j
                              WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3
                                AND j.run_at <= now()
                              ORDER BY j.run_at, (+j.id) LIMIT $4) AS due),
       (SELECT nullif(count(*), $4) FROM (SELECT FROM queue_jobs AS j
                              WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3
                                AND j.run_at > now()
                              ORDER BY j.run_at, (+j.id) LIMIT $4) AS later)

-- name: running
-- Running jobs by kind and queue, at most $1 of them. The claim records lead to them.
SELECT kind, queue, count(*)
FROM (SELECT kind, queue FROM queue_jobs
      WHERE id = ANY (ARRAY(SELECT unnest(job_ids) FROM queue_claims)) AND worker_id <> 0 LIMIT $1) AS j
GROUP BY kind, queue

-- name: dead_lanes
-- The kinds and queues that have dead letters, at most 2,000.
WITH RECURSIVE lane AS (
    (SELECT kind, queue FROM queue_dead ORDER BY kind, queue LIMIT 1)
    UNION ALL
    SELECT head.*
    FROM lane AS l
    CROSS JOIN LATERAL (
        SELECT d.kind, d.queue FROM queue_dead AS d WHERE (d.kind, d.queue) > (l.kind, l.queue)
        ORDER BY d.kind, d.queue LIMIT 1
    ) AS head
)
SELECT kind, queue, 0, NULL::bigint FROM (SELECT * FROM lane LIMIT 2000) AS l

-- name: dead
-- How many dead letters each of these has: its place in the list, and the number (NULL: more than $2).
SELECT t.ord - 1, CASE WHEN head.jobs <= $2 THEN head.jobs END
FROM json_array_elements($1::json) WITH ORDINALITY AS t (lane, ord)
CROSS JOIN LATERAL json_to_record(t.lane) AS l (kind text, queue text)
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (SELECT FROM queue_dead AS d WHERE d.kind = l.kind AND d.queue = l.queue
                                  ORDER BY d.kind, d.queue LIMIT $2 + 1) AS d
) AS head

-- name: alive
-- The number of live workers.
SELECT count(*) FROM queue_workers AS w
WHERE w.stopped_at IS NULL
  AND (SELECT b.expires_at FROM queue_heartbeats AS b WHERE b.worker_id = w.id
       ORDER BY b.heartbeat_at DESC LIMIT 1) > now()

-- name: paused
-- The paused queues, those too that are empty.
SELECT queue, paused_at FROM queue_paused ORDER BY queue
