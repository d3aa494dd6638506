-- Workers: joining, heartbeats, losses, and the rescue of their jobs.

-- name: join
INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, limits, started_at)
VALUES ($1, $2, $3, $4, $5, $6, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))

-- name: join_heartbeat
INSERT INTO queue_heartbeats (worker_id, heartbeat_at, expires_at)
SELECT $1, now, now + $2 / 1000 FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now)

-- name: heartbeat
-- A heartbeat in one statement: an idle worker sends hardly any other. It covers all workers, as few share a file.
UPDATE queue_heartbeats
SET heartbeat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2 / 1000
WHERE worker_id = $1 AND EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL)
RETURNING 1,
          EXISTS (SELECT 1 FROM json_each($3) AS served CROSS JOIN queue_jobs AS j INDEXED BY queue_jobs_waiting
                  WHERE j.worker_id = 0 AND j.kind = served.value),
          (SELECT nullif(json_group_array(json_array(j.id, j.fence)), '[]')
           FROM json_each($4) AS running CROSS JOIN queue_jobs AS j ON j.id = running.value
           WHERE +j.worker_id = $1 AND j.cancel_requested_at IS NOT NULL),
          NULL,
          (SELECT nullif(json_group_array(json_array(w.id, 0, 0, b.heartbeat_at * 1000, NULL, 0,
                                                     (b.expires_at
                                                         - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
                                                         * 1000,
                                                     (b.expires_at - b.heartbeat_at) * 1000)), '[]')
           FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
           WHERE w.stopped_at IS NULL AND w.id <> $1)

-- name: holding
-- Names the index, so that the one with `worker_id = 0` is not considered: SQLite would plan this anew each time.
SELECT id, fence FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id = $1 AND worker_id <> 0

-- name: leave
-- If both times are the same, the worker was well all the time (`lock_lost`).
UPDATE queue_workers
SET stopped_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    heartbeat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2 / 1000
WHERE id = $1 AND stopped_at IS NULL

-- name: declare_lost
-- step: find
UPDATE queue_workers
SET stopped_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), heartbeat_at = $2 / 1000
WHERE id = $1 AND stopped_at IS NULL AND $3 = 1
  AND EXISTS (SELECT 1 FROM queue_heartbeats AS b
              WHERE b.worker_id = $1 AND b.heartbeat_at = $2 / 1000
                AND b.expires_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
RETURNING id

-- step: found
DELETE FROM queue_heartbeats WHERE worker_id IN (SELECT value FROM json_each($1))

-- name: lost
-- The jobs of workers that are lost, stopped or unknown, by a skip scan over the workers that hold jobs.
WITH RECURSIVE holder (id) AS (
    SELECT (SELECT min(worker_id) FROM queue_jobs INDEXED BY queue_jobs_held WHERE worker_id <> 0)
    UNION ALL
    SELECT (SELECT min(j.worker_id) FROM queue_jobs AS j INDEXED BY queue_jobs_held
            WHERE j.worker_id <> 0 AND j.worker_id > holder.id)
    FROM holder WHERE holder.id IS NOT NULL
)
SELECT j.id, j.worker_id
FROM holder CROSS JOIN queue_jobs AS j INDEXED BY queue_jobs_held ON j.worker_id = holder.id AND j.worker_id <> 0
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = holder.id AND w.stopped_at IS NULL)
LIMIT +$1

-- name: lock_lost
-- The jobs that the lost worker still holds, and what becomes of each:
--   dead       its last attempt was lost
--   cancelled  cancellation was requested
--   ready      the attempt counts, and retries are left
--   unstarted  the attempt never began, so it does not count. A job that was lost before or has at most one retry left
--              always has its start recorded first
--   unknown    it is not known whether the attempt began, so it does not count for now
-- If a job is lost while it runs alone, its earlier unknown attempts count as lost, too: these are its doubts.
-- The losses include this one, with two exceptions: the attempt never began, or the worker was well and left by itself
-- (`leave`).
SELECT id,
       CASE WHEN began AND attempt + doubts > max_retries THEN 'dead'
            WHEN cancelling THEN 'cancelled'
            WHEN began THEN 'ready'
            WHEN losses > 0 OR attempt >= max_retries THEN 'unstarted'
            ELSE 'unknown' END,
       doubts,
       losses + iif(heartbeat_at = stopped_at OR NOT began AND (losses > 0 OR attempt >= max_retries), 0, 1),
       'the worker' || coalesce(' (' || host || ':' || pid || ')', '')
       || iif(began, ' running this job was lost', ' was lost before it was known to have started this job')
       || coalesce(' (no heartbeat since ' || strftime('%Y-%m-%d %H:%M:%S', heartbeat_at / 1000, 'unixepoch')
           || ' UTC)', '')
       || CASE WHEN NOT began OR max_neighbours IS NULL THEN ''
               WHEN max_neighbours = 0 THEN '; no other job ran beside it'
               ELSE '; it ran beside at most ' || max_neighbours || ' others' END,
       kind, queue
FROM (
    SELECT j.id, j.kind, j.queue, j.attempt, j.max_retries, j.losses, j.max_neighbours, j.started_fence = j.fence AS began,
           j.cancel_requested_at IS NOT NULL AS cancelling, w.host, w.pid, w.heartbeat_at, w.stopped_at,
           iif(j.started_fence = j.fence AND j.max_neighbours = 0,
               (SELECT count(*) FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome = 'unstarted'), 0)
                   AS doubts
    FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
    LEFT JOIN queue_workers AS w ON w.id = j.worker_id
    WHERE j.worker_id = d.value ->> 'worker_id' AND (w.id IS NULL OR w.stopped_at IS NOT NULL)
)

-- name: rescue
-- step: all
UPDATE queue_attempts SET outcome = 'lost'
WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1) WHERE value ->> 'doubts' > 0) AND outcome = 'unstarted'

-- step: all
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt + (d.value ->> 'doubts'), j.worker_id, coalesce(j.claimed_at, now), now,
       iif(d.value ->> 'fate' = 'unknown', 'unstarted', 'lost'), d.value ->> 'error'
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' <> 'unstarted'
ON CONFLICT DO NOTHING

-- step: all
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries,
       j.attempt + (d.value ->> 'doubts'), j.fence,
       j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, now, 'cancelled on request; ' || (d.value ->> 'error'),
       j.meta
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' = 'cancelled'

-- step: all
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt + (d.value ->> 'doubts'),
       j.fence, j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, now, d.value ->> 'error', j.meta
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE d.value ->> 'fate' = 'dead'

-- step: all
-- Returns lost jobs to the queue. From its second loss on, a job waits for a random time, so that jobs that were lost
-- together do not all meet again.
UPDATE queue_jobs
SET worker_id = 0, claimed_at = NULL,
    attempt = max(iif(d.fate = 'ready', attempt + d.doubts, attempt - 1), 0),
    losses = min(d.losses, 1000),
    run_at = iif(d.fate = 'ready' AND d.losses > 1,
                 CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                 + abs(random() % 1000000) * min(1 << min(d.losses - 1, 10), 600) / 1000,
                 run_at)
FROM (SELECT value ->> 'id' AS id, value ->> 'fate' AS fate, value ->> 'doubts' AS doubts, value ->> 'losses' AS losses
      FROM json_each($1)) AS d
WHERE queue_jobs.id = d.id AND d.fate IN ('ready', 'unstarted', 'unknown')

-- name: purge_workers
DELETE FROM queue_workers WHERE stopped_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
