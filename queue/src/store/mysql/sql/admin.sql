-- The administration: what it shows and changes.

-- name: stats
-- Jobs by kind, queue and state, and how many of them are retrying.
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(since)),
       COUNT(CASE WHEN retrying THEN 1 END)
FROM (SELECT kind, queue, IF(worker_id <> 0, claimed_at, run_at) AS since,
             CASE WHEN worker_id <> 0 THEN 'running'
                 WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state,
             worker_id = 0 AND fence > 0
             AND (SELECT a.outcome FROM queue_attempts AS a
                  WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                  ORDER BY a.fence DESC LIMIT 1)
                 IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') AS retrying
      FROM queue_jobs AS j) AS hot
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, state, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at)), 0
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at)), 0
FROM queue_dead GROUP BY kind, queue

-- name: workers
-- Worker processes. Retention removes workers that stopped long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', COALESCE(b.heartbeat_at, worker.heartbeat_at, started_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', stopped_at),
       COALESCE(b.expires_at > UTC_TIMESTAMP(6), FALSE),
       limits
FROM queue_workers AS worker
LEFT JOIN queue_heartbeats AS b ON b.worker_id = worker.id AND worker.stopped_at IS NULL
ORDER BY id

-- name: kinds
-- What the workers declared that started last.
SELECT DISTINCT kinds FROM (SELECT kinds FROM queue_workers ORDER BY id DESC LIMIT 1000) AS w

-- name: held
-- How many jobs each worker holds: worker, queue, number.
SELECT j.worker_id, j.queue, COUNT(DISTINCT j.id)
FROM queue_claims AS c
STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = c.worker_id
GROUP BY j.worker_id, j.queue

-- name: jobs_hot
-- Waiting and running jobs with ids above $1, up to $5, that match. NULL matches any. Arguments of at most $16 bytes
-- are returned if some are asked for: they contain $14, or the escape $15, which may stand for a part of it.
SELECT j.id, kind, queue, state, priority, j.attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(j.worker_id <> 0, claimed_at, NULL)),
           CAST(NULL AS SIGNED), NULLIF(j.worker_id, 0),
       cancel_requested_at IS NOT NULL, failed.error,
       CASE WHEN $14 IS NOT NULL AND OCTET_LENGTH(j.args) <= $16 THEN j.args END
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running'
                     WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled'
                     ELSE 'ready' END AS state
      FROM queue_jobs) AS j
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT MAX(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.id > $1 AND j.id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
  AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR LOCATE($7, failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR failed.ended_at >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR failed.ended_at < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR j.worker_id = 0 AND failed.error IS NOT NULL)
  AND ($13 IS NULL OR NULLIF(j.worker_id, 0) = $13)
  AND ($14 IS NULL OR LOCATE($14, j.args) > 0 OR LOCATE($15, j.args) > 0)
ORDER BY j.id

-- name: jobs_running
-- The same for running jobs, found through the claim records: no walk over all waiting rows.
SELECT j.id, kind, queue, 'running', priority, j.attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', claimed_at), CAST(NULL AS SIGNED), j.worker_id,
       cancel_requested_at IS NOT NULL, failed.error,
       CASE WHEN $14 IS NOT NULL AND OCTET_LENGTH(j.args) <= $16 THEN j.args END
FROM (SELECT DISTINCT d.id
      FROM queue_claims AS c
      STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d) AS claimed
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = claimed.id
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT MAX(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.worker_id <> 0
  AND j.id > $1 AND j.id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
  AND ($4 IS NULL OR 'running' = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR LOCATE($7, failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR failed.ended_at >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR failed.ended_at < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR 0)
  AND ($13 IS NULL OR NULLIF(j.worker_id, 0) = $13)
  AND ($14 IS NULL OR LOCATE($14, j.args) > 0 OR LOCATE($15, j.args) > 0)
ORDER BY j.id

-- name: jobs_over
-- The same for completed and cancelled jobs.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error,
       CASE WHEN $14 IS NOT NULL AND OCTET_LENGTH(args) <= $16 THEN args END
FROM queue_history
WHERE id > $1 AND id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR LOCATE($7, error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR CAST(NULL AS DATETIME(6)) >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR CAST(NULL AS DATETIME(6)) < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR 0)
  AND ($13 IS NULL OR NULLIF(worker_id, 0) = $13)
  AND ($14 IS NULL OR LOCATE($14, args) > 0 OR LOCATE($15, args) > 0)
ORDER BY id

-- name: jobs_dead
-- The same for dead letters.
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error,
       CASE WHEN $14 IS NOT NULL AND OCTET_LENGTH(args) <= $16 THEN args END
FROM queue_dead
WHERE id > $1 AND id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'dead' = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR LOCATE($7, error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR finished_at >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR finished_at < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR 0)
  AND ($13 IS NULL OR NULLIF(worker_id, 0) = $13)
  AND ($14 IS NULL OR LOCATE($14, args) > 0 OR LOCATE($15, args) > 0)
ORDER BY id

-- name: slice_back
-- The next $6 rows with ids of $1 and below: the last id, how many they are, and when that job was enqueued. So many
-- are looked at: $2 waiting and running jobs, $3 of the running ones alone, $4 that are over, $5 dead letters. 0: none.
SELECT edge, number,
       COALESCE((SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at) FROM queue_jobs WHERE id = edge),
                (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at) FROM queue_history WHERE id = edge),
                (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at) FROM queue_dead WHERE id = edge))
FROM (SELECT MIN(id) AS edge, COUNT(*) AS number
      FROM (SELECT id
            FROM ((SELECT id FROM queue_jobs WHERE id <= $1 ORDER BY id DESC LIMIT $2)
                  UNION ALL
                  (SELECT DISTINCT d.id
                   FROM queue_claims AS c
                   STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
                   WHERE d.id <= $1 ORDER BY d.id DESC LIMIT $3)
                  UNION ALL
                  (SELECT id FROM queue_history WHERE id <= $1 ORDER BY id DESC LIMIT $4)
                  UNION ALL
                  (SELECT id FROM queue_dead WHERE id <= $1 ORDER BY id DESC LIMIT $5)) AS ids
            ORDER BY id DESC LIMIT $6) AS ids) AS slice

-- name: slice_on
-- The same for ids above $1, without the time.
SELECT MAX(id), COUNT(*)
FROM (SELECT id
      FROM ((SELECT id FROM queue_jobs WHERE id > $1 ORDER BY id LIMIT $2)
            UNION ALL
            (SELECT DISTINCT d.id
             FROM queue_claims AS c
             STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
             WHERE d.id > $1 ORDER BY d.id LIMIT $3)
            UNION ALL
            (SELECT id FROM queue_history WHERE id > $1 ORDER BY id LIMIT $4)
            UNION ALL
            (SELECT id FROM queue_dead WHERE id > $1 ORDER BY id LIMIT $5)) AS ids
      ORDER BY id LIMIT $6) AS slice

-- name: job
-- One job, from any table. One statement is one snapshot: a job that moves meanwhile is found exactly once.
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running'
            WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled'
            ELSE 'ready' END,
       priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(worker_id <> 0, claimed_at, NULL)),
           CAST(NULL AS SIGNED), NULLIF(worker_id, 0),
       cancel_requested_at IS NOT NULL,
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1),
       fence, args, CAST(NULL AS CHAR),
       (SELECT CONCAT(w.host, ':', w.pid) FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_jobs AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error, fence, args, result,
       (SELECT CONCAT(w.host, ':', w.pid) FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_history AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error, fence, args,
       CAST(NULL AS CHAR),
       (SELECT CONCAT(w.host, ':', w.pid) FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_dead AS j WHERE id = $1

-- name: place
-- What decides when a waiting job is claimed: now, since when its queue is paused, and how many jobs of its lane come
-- first (at most $6).
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', paused_at) FROM queue_paused WHERE queue = $2),
       (SELECT COUNT(*) FROM (SELECT 1 FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
                              WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3
                                AND j.run_at <= TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
                                AND (j.run_at < TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND OR j.id < $5)
                              ORDER BY j.run_at, j.id LIMIT $6) AS before_it)

-- name: lock_free
-- A row if nobody has this waiting job locked.
SELECT id FROM queue_jobs WHERE id = $1 FOR UPDATE SKIP LOCKED

-- name: attempts
-- The last 1000 recorded attempts of a job, up to the fence of its row, which was read just before. Nothing is recorded
-- later under a fence that is over, so they match that row.
SELECT attempt, worker_id, CONCAT(w.host, ':', w.pid), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', a.started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at), outcome, error
FROM queue_attempts AS a LEFT JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = worker_id
WHERE job_id = $1 AND fence <= $2
ORDER BY fence DESC LIMIT 1000

-- name: ended
-- The attempts that ended last, at most $1 from each table: id, kind and queue (NULL: the job is gone), outcome, attempt,
-- worker, its name, start, end, whether it left a dead letter, and the first $2 characters of its error. The history has
-- the completed ones, and jobs that were cancelled while they waited.
WITH ended_jobs AS (
    SELECT id, kind, queue, state, attempt, worker_id, started_at, finished_at, LEFT(error, $2) AS error
    FROM queue_history FORCE INDEX (queue_history_finished) ORDER BY finished_at DESC LIMIT $1
), last_ones AS (
    SELECT job_id, fence, attempt, worker_id, started_at, ended_at, outcome, LEFT(error, $2) AS error
    FROM queue_attempts FORCE INDEX (queue_attempts_ended) ORDER BY ended_at DESC LIMIT $1
)
SELECT o.id, o.kind, o.queue, o.state, o.attempt, o.worker_id, CONCAT(w.host, ':', w.pid),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.started_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.finished_at),
       0, o.error
FROM ended_jobs AS o LEFT JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = o.worker_id
WHERE o.state = 'completed' OR o.started_at IS NULL
UNION ALL
SELECT a.job_id, COALESCE(j.kind, d.kind, h.kind), COALESCE(j.queue, d.queue, h.queue), a.outcome, a.attempt,
       a.worker_id, CONCAT(w.host, ':', w.pid), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', a.started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', a.ended_at), CASE WHEN d.fence = a.fence THEN 1 ELSE 0 END, a.error
FROM last_ones AS a
LEFT JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = a.job_id
LEFT JOIN queue_dead AS d FORCE INDEX (PRIMARY) ON d.id = a.job_id
LEFT JOIN queue_history AS h FORCE INDEX (PRIMARY) ON h.id = a.job_id
LEFT JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = a.worker_id

-- name: failures_dead
-- The $1 newest dead letters, counted by kind and error (its first $2 characters): kind, error, number, first and last
-- end, newest job.
WITH dead AS (
    SELECT kind, LEFT(error, $2) AS error, finished_at, id FROM queue_dead FORCE INDEX (PRIMARY) ORDER BY id DESC LIMIT $1
)
SELECT kind, error, COUNT(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(finished_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(finished_at)), MAX(id)
FROM dead GROUP BY kind, error

-- name: failures_retrying
-- The same for waiting jobs whose last attempt failed, among the $1 attempts that ended last. Attempts that a shutdown
-- released do not matter. All other attempts are one row without a kind.
WITH last_ones AS (
    SELECT job_id, fence, outcome, LEFT(error, $2) AS error, ended_at
    FROM queue_attempts FORCE INDEX (queue_attempts_ended) ORDER BY ended_at DESC LIMIT $1
)
SELECT j.kind, CASE WHEN j.kind IS NOT NULL THEN a.error END AS failure, COUNT(*),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(a.ended_at)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(a.ended_at)),
       MAX(a.job_id)
FROM last_ones AS a
LEFT JOIN queue_jobs AS j FORCE INDEX (PRIMARY)
    ON j.id = a.job_id AND j.worker_id = 0 AND a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND NOT EXISTS (SELECT 1 FROM queue_attempts AS b WHERE b.job_id = a.job_id AND b.fence > a.fence
        AND b.outcome NOT IN ('released', 'unstarted'))
GROUP BY j.kind, failure

-- name: pause
-- Not INSERT IGNORE, which would truncate an overlong name.
INSERT INTO queue_paused (queue) SELECT $1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM queue_paused WHERE queue = $1)
ON DUPLICATE KEY UPDATE paused_at = queue_paused.paused_at

-- name: run_now
-- step: find
-- Locks the scheduled jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
    WHERE j.worker_id = 0 AND j.run_at > UTC_TIMESTAMP(6)
FOR UPDATE SKIP LOCKED

-- step: found
-- Makes scheduled jobs ready. The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.run_at = UTC_TIMESTAMP(6)

-- name: reschedule
-- step: find
-- Locks the waiting jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id WHERE j.worker_id = 0
FOR UPDATE SKIP LOCKED

-- step: found
-- Sets another due time for waiting jobs. The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', run_at BIGINT PATH '$.run_at')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id
SET j.run_at = TIMESTAMPADD(MICROSECOND, b.run_at, '1970-01-01')

-- name: cancel
-- step: find
-- Locks the waiting and running jobs among these jobs, by primary key, in the given order: MySQL does not report which
-- rows an UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- Cancels waiting jobs, first half (the next step is the second). The rows are locked.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, error, meta)
SELECT j.id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       b.reason, j.meta
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', reason TEXT CHARACTER SET utf8mb4 PATH '$.reason')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id
WHERE worker_id = 0

-- step: found
-- The rows are locked. Held jobs stay.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id WHERE j.worker_id = 0

-- step: found
-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.cancel_requested_at = UTC_TIMESTAMP(6)
WHERE j.worker_id <> 0 AND j.cancel_requested_at IS NULL

-- name: send_back
-- step: find
-- Locks the dead letters among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id, j.features FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
-- The next step removes them. The rows are locked.
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at, meta)
SELECT j.id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, UTC_TIMESTAMP(6), j.meta
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- step: found
-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- name: delete
-- step: find
-- Locks the dead letters among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- step: found
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id

-- step: find
-- Locks the completed and cancelled jobs among these jobs, by primary key, in the given order: MySQL does not report
-- which rows an UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_history AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_history AS j FORCE INDEX (PRIMARY) ON j.id = b.id

-- step: found
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id

-- step: find
-- Locks the waiting jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id WHERE j.worker_id = 0
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked. Held jobs stay.
DELETE j FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id WHERE j.worker_id = 0

-- step: found
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = b.id

-- name: edit
-- step: find
-- With `was`, only if the arguments are these.
-- Locks the dead letters among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id, was FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id',
    was LONGTEXT CHARACTER SET utf8mb4 PATH '$.was')) AS b) AS ids
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
WHERE (ids.was IS NULL OR CAST(j.args AS BINARY) = CAST(ids.was AS BINARY))
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.args = b.args

-- step: find
-- Locks the waiting jobs among these jobs, by primary key, in the given order: MySQL does not report which rows an
-- UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id FROM (SELECT id, was FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id',
    was LONGTEXT CHARACTER SET utf8mb4 PATH '$.was')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
WHERE j.worker_id = 0 AND (ids.was IS NULL OR CAST(j.args AS BINARY) = CAST(ids.was AS BINARY))
FOR UPDATE SKIP LOCKED

-- step: found
-- The rows are locked.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args')) AS b
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = b.id SET j.args = b.args
