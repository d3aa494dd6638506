-- Workers: joining, heartbeats, losses, and the rescue of their jobs.

-- name: join
INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, limits) VALUES ($1, $2, $3, $4, $5, $6)

-- name: join_heartbeat
INSERT INTO queue_heartbeats (worker_id, expires_at) VALUES ($1, UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND)

-- name: heartbeat
-- step: claims
-- Deletes the claim records that the worker reports as settled, but only in the session that answered its last
-- heartbeat: a server that has failed may have lost commits that it had acknowledged.
DELETE c
FROM JSON_TABLE($5, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = d.id
WHERE c.worker_id = $1 AND CONNECTION_ID() = $7

-- step: claims
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

-- step: all
UPDATE queue_heartbeats SET heartbeat_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND,
                            server_run = $8, next_heartbeat_at = UTC_TIMESTAMP(6) + INTERVAL $9 MICROSECOND
WHERE worker_id = $1 AND (SELECT COUNT(*) FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL) = 1

-- step: all
-- What a heartbeat reports, on up to 32 other workers: the next 16 by id and the first 16. So several watch each one.
SELECT (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
        WHERE w.id = $1 AND w.stopped_at IS NULL),
       FALSE,
       (SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(j.id, j.fence)) AS CHAR)
        FROM JSON_TABLE($4, '$[*]' COLUMNS (id BIGINT PATH '$')) AS running
        STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = running.id
        WHERE j.worker_id = $1 AND j.cancel_requested_at IS NOT NULL),
       CONNECTION_ID(),
       (SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(
                   id,
                   IF(IS_USED_LOCK(CONCAT(name.live, id)) IS NULL, 0, 1),
                   IF(IS_USED_LOCK(CONCAT(name.busy, id)) IS NULL, 0, 1),
                   TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at),
                   server_run,
                   COALESCE(TIMESTAMPDIFF(MICROSECOND, next_heartbeat_at, UTC_TIMESTAMP(6)), 0),
                   TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at),
                   TIMESTAMPDIFF(MICROSECOND, heartbeat_at, expires_at))) AS CHAR)
        FROM (SELECT CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_')
            AS live,
                     CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_')
                         AS busy) AS name
        CROSS JOIN
             ((SELECT near.id, b.heartbeat_at, b.expires_at, b.server_run, b.next_heartbeat_at
               FROM queue_workers AS near FORCE INDEX (queue_workers_alive)
               STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = near.id
               WHERE near.stopped_at IS NULL AND near.id > $1 ORDER BY near.id LIMIT 16)
              UNION ALL
              (SELECT near.id, b.heartbeat_at, b.expires_at, b.server_run, b.next_heartbeat_at
               FROM queue_workers AS near FORCE INDEX (queue_workers_alive)
               STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = near.id
               WHERE near.stopped_at IS NULL AND near.id < $1 ORDER BY near.id LIMIT 16)) AS other)

-- name: holding
-- As `lost`, for the jobs of one worker.
SELECT DISTINCT j.id, j.fence
FROM queue_claims AS c FORCE INDEX (queue_claims_worker)
STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE c.worker_id = $1 AND j.worker_id = $1

-- name: leave
-- If both times are the same, the worker was well all the time (`lock_lost`).
UPDATE queue_workers
SET stopped_at = UTC_TIMESTAMP(6), heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL $2 MICROSECOND
WHERE id = $1 AND stopped_at IS NULL

-- name: declare_lost
-- step: find
-- Locks the heartbeat of a worker whose lease has run out ($3 = 1) or whose liveness lock is free. A free lock counts
-- only in the server run in which it was held (`run` in sessions.sql). Waits for a heartbeat that is being written.
SELECT worker_id FROM queue_heartbeats
WHERE worker_id = $1 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) = $2
  AND (SELECT COUNT(*) FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL) = 1
  AND IF($3 = 1, expires_at < UTC_TIMESTAMP(6),
      server_run = (
          SELECT (TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6)) - CAST(variable_value AS SIGNED)) * 1000000
              + @@server_id % 1000000
          FROM /*M! information_schema.global_status */ /*!80000 performance_schema.global_status */
          WHERE variable_name = 'Uptime')
      AND IS_FREE_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32),
          '_', $1)) = 1)
FOR UPDATE

-- step: found
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = d.id
STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = d.id
SET w.stopped_at = UTC_TIMESTAMP(6), w.heartbeat_at = b.heartbeat_at

-- step: found
DELETE b FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = d.id

-- name: lost
-- The jobs of workers that are lost, stopped or unknown, found through their claim records.
SELECT DISTINCT j.id, j.worker_id
FROM queue_claims AS c
STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE (SELECT COUNT(*) FROM queue_workers AS w FORCE INDEX (PRIMARY)
       WHERE w.id = c.worker_id AND w.stopped_at IS NULL) = 0
  AND j.worker_id = c.worker_id
LIMIT $1

-- name: lock_lost
-- Locks the jobs that the lost worker still holds, and decides what becomes of each:
--   dead       its last attempt was lost
--   cancelled  cancellation was requested
--   ready      the attempt counts, and retries are left
--   unstarted  the attempt never began, so it does not count. A job that was lost before or has at most one retry left
--              always has its start recorded first
--   unknown    it is not known whether the attempt began, so it does not count for now
-- If a job is lost while it runs alone, its earlier unknown attempts count as lost, too: these are its doubts.
-- The losses include this one, with two exceptions: the attempt never began, or the worker was well and left by itself
-- (`leave`).
-- (MySQL rejects FOR UPDATE with a table function that is not wrapped. Rows read by a subquery are not locked.)
SELECT j.id,
       CASE WHEN j.started_fence = j.fence AND j.attempt + IF(j.max_neighbours = 0, (
                SELECT COUNT(*) FROM queue_attempts AS a FORCE INDEX (PRIMARY)
                WHERE a.job_id = j.id AND a.outcome = 'unstarted'), 0) > j.max_retries THEN 'dead'
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN j.started_fence = j.fence THEN 'ready'
            WHEN j.losses > 0 OR j.attempt >= j.max_retries THEN 'unstarted'
            ELSE 'unknown' END,
       IF(j.started_fence = j.fence AND j.max_neighbours = 0, (
           SELECT COUNT(*) FROM queue_attempts AS a FORCE INDEX (PRIMARY)
           WHERE a.job_id = j.id AND a.outcome = 'unstarted'), 0),
       j.losses + IF(j.started_fence <> j.fence AND (j.losses > 0 OR j.attempt >= j.max_retries) OR (
           SELECT COUNT(*) FROM queue_workers AS w FORCE INDEX (PRIMARY)
           WHERE w.id = j.worker_id AND w.heartbeat_at = w.stopped_at) > 0, 0, 1),
       CONCAT('the worker',
              COALESCE((SELECT CONCAT(' (', w.host, ':', w.pid, ')')
                        FROM queue_workers AS w FORCE INDEX (PRIMARY) WHERE w.id = j.worker_id), ''),
              IF(j.started_fence = j.fence, ' running this job was lost',
                  ' was lost before it was known to have started this job'),
              COALESCE((SELECT CONCAT(' (no heartbeat since ', DATE_FORMAT(w.heartbeat_at, '%Y-%m-%d %H:%i:%s'),
                  ' UTC)')
                        FROM queue_workers AS w FORCE INDEX (PRIMARY) WHERE w.id = j.worker_id), ''),
              CASE WHEN j.started_fence <> j.fence OR j.max_neighbours IS NULL THEN ''
                   WHEN j.max_neighbours = 0 THEN '; no other job ran beside it'
                   ELSE CONCAT('; it ran beside at most ', j.max_neighbours, ' others') END),
       j.kind, j.queue
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', worker_id BIGINT PATH '$.worker_id')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = d.worker_id
FOR UPDATE SKIP LOCKED

-- name: rescue
-- step: all
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', doubts INT PATH '$.doubts')) AS d
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = d.id
SET a.outcome = 'lost'
WHERE d.doubts > 0 AND a.outcome = 'unstarted'

-- step: all
INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.fence, j.attempt + d.doubts, j.worker_id, COALESCE(j.claimed_at, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6),
       IF(d.fate = 'unknown', 'unstarted', 'lost'), d.error
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate <> 'unstarted'
ON DUPLICATE KEY UPDATE queue_attempts.job_id = queue_attempts.job_id

-- step: all
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, 'cancelled', j.args, j.priority, j.features, j.max_retries, j.attempt + d.doubts,
       j.fence, j.worker_id,
       j.enqueued_at, j.run_at, j.claimed_at, UTC_TIMESTAMP(6), CONCAT('cancelled on request; ', d.error), j.meta
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate = 'cancelled'

-- step: all
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error, meta)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.features, j.max_retries, j.attempt + d.doubts, j.fence,
       j.worker_id, j.enqueued_at, j.run_at, j.claimed_at, UTC_TIMESTAMP(6), d.error, j.meta
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate = 'dead'

-- step: all
DELETE j
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate IN ('dead', 'cancelled')

-- step: all
-- Returns lost jobs to the queue. From its second loss on, a job waits for a random time, so that jobs that were lost
-- together do not all meet again.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate', doubts INT PATH '$.doubts',
    losses INT PATH '$.losses')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = 0,
    j.attempt = GREATEST(IF(d.fate = 'ready', j.attempt + d.doubts, j.attempt - 1), 0),
    j.losses = LEAST(d.losses, 1000),
    j.run_at = IF(d.fate = 'ready' AND d.losses > 1,
                  UTC_TIMESTAMP(6) + INTERVAL FLOOR(RAND() * LEAST(POW(2, LEAST(d.losses - 1, 10)), 600)
                      * 1000000) MICROSECOND,
                  j.run_at)
WHERE d.fate IN ('ready', 'unstarted', 'unknown')

-- name: forget_claims
-- step: find
-- Locks claim records without held jobs, of lost or stopped workers. Concurrent rescues skip each other's.
SELECT free.id
FROM (
    SELECT c.id
    FROM queue_claims AS c
    STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
    LEFT JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id AND j.worker_id = c.worker_id
    WHERE (SELECT COUNT(*) FROM queue_workers AS w FORCE INDEX (PRIMARY)
       WHERE w.id = c.worker_id AND w.stopped_at IS NULL) = 0
    GROUP BY c.id
    HAVING COUNT(j.id) = 0
) AS nothing
STRAIGHT_JOIN queue_claims AS free FORCE INDEX (PRIMARY) ON free.id = nothing.id
FOR UPDATE SKIP LOCKED

-- step: found
DELETE c FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = d.id

-- name: purge_workers
DELETE FROM queue_workers WHERE stopped_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
