-- Gauges: how much waits, runs and is dead, from bounded reads of the indexes.

-- name: lanes
-- The lanes that have waiting jobs, at most 2,000: a skip scan of the claim index, at most three probes for each.
-- `waiting` needs no first time here.
WITH RECURSIVE lane (id) AS (
    SELECT * FROM (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting WHERE j.worker_id = 0
                   ORDER BY j.kind, j.queue, j.priority, j.run_at, j.id LIMIT 1)
    UNION ALL
    SELECT coalesce(
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority > l.priority
         ORDER BY j.priority, j.run_at, j.id LIMIT 1),
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue > l.queue
         ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT 1),
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind > l.kind
         ORDER BY j.kind, j.queue, j.priority, j.run_at, j.id LIMIT 1))
    FROM lane CROSS JOIN queue_jobs AS l ON l.id = lane.id
    LIMIT 2000
)
SELECT l.kind, l.queue, l.priority, NULL FROM lane CROSS JOIN queue_jobs AS l ON l.id = lane.id

-- name: waiting
-- The first $2 + 1 waiting jobs of each of these lanes: the lane's place in the list, its first due time, now, how many
-- jobs it has (NULL: more than $2), and how many of them are not due yet.
WITH l AS MATERIALIZED (
    SELECT key AS place, value ->> 'kind' AS kind, value ->> 'queue' AS queue, value ->> 'priority' AS priority
    FROM json_each($1))
SELECT l.place,
       (SELECT j.run_at * 1000 FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
        WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue
          AND j.priority = l.priority
        ORDER BY j.run_at LIMIT 1),
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
       (SELECT CASE WHEN count(*) <= $2 THEN count(*) END
        FROM (SELECT 1 FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
              WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue
                AND j.priority = l.priority
              ORDER BY j.run_at LIMIT +$2 + 1)),
       (SELECT count(*)
        FROM (SELECT 1 FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
              WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue
                AND j.priority = l.priority
                AND j.run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
              ORDER BY j.run_at LIMIT +$2 + 1))
FROM l

-- name: waiting_in
-- One lane: how many of its jobs are due, and how many are not yet. NULL: $4 or more.
SELECT (SELECT nullif(count(*), $4) FROM (SELECT 1 FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
                              WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3
                                AND j.run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                              ORDER BY j.run_at LIMIT +$4)),
       (SELECT nullif(count(*), $4) FROM (SELECT 1 FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
                              WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3
                                AND j.run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                              ORDER BY j.run_at LIMIT +$4))

-- name: running
-- Running jobs by kind and queue, at most $1 of them.
SELECT kind, queue, count(*)
FROM (SELECT kind, queue FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id <> 0 LIMIT +$1)
GROUP BY kind, queue

-- name: dead_lanes
-- The kinds and queues that have dead letters, at most 2,000.
WITH RECURSIVE lane (id) AS (
    SELECT * FROM (SELECT d.id FROM queue_dead AS d INDEXED BY queue_dead_lane ORDER BY d.kind, d.queue LIMIT 1)
    UNION ALL
    SELECT coalesce(
        (SELECT d.id FROM queue_dead AS d INDEXED BY queue_dead_lane
         WHERE d.kind = l.kind AND d.queue > l.queue ORDER BY d.queue LIMIT 1),
        (SELECT d.id FROM queue_dead AS d INDEXED BY queue_dead_lane
         WHERE d.kind > l.kind ORDER BY d.kind, d.queue LIMIT 1))
    FROM lane CROSS JOIN queue_dead AS l ON l.id = lane.id
    LIMIT 2000
)
SELECT l.kind, l.queue, 0, NULL FROM lane CROSS JOIN queue_dead AS l ON l.id = lane.id

-- name: dead
-- How many dead letters each of these has: its place in the list, and the number (NULL: more than $2).
WITH l AS MATERIALIZED (
    SELECT key AS place, value ->> 'kind' AS kind, value ->> 'queue' AS queue
    FROM json_each($1))
SELECT l.place,
       (SELECT CASE WHEN count(*) <= $2 THEN count(*) END
        FROM (SELECT 1 FROM queue_dead AS d INDEXED BY queue_dead_lane
              WHERE d.kind = l.kind AND d.queue = l.queue LIMIT +$2 + 1))
FROM l

-- name: alive
-- The number of live workers.
SELECT count(*) FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
WHERE w.stopped_at IS NULL AND b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)

-- name: paused
-- The paused queues, those too that are empty.
SELECT queue, paused_at * 1000 FROM queue_paused ORDER BY queue
