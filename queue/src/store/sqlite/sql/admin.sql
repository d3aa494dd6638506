-- The administration: what it shows and changes.

-- name: stats
-- Jobs by kind, queue and state, and how many of them are retrying.
SELECT kind, queue, state, count(*), max(-62135596800000, min(min(run_at), 253402214400000)) * 1000,
       count(CASE WHEN retrying THEN 1 END)
FROM (SELECT kind, queue, run_at,
             CASE WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
                  ELSE 'ready' END AS state,
             fence > 0
             AND (SELECT a.outcome FROM queue_attempts AS a
                  WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                  ORDER BY a.fence DESC LIMIT 1)
                 IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') AS retrying
      FROM queue_jobs AS j WHERE worker_id = 0) AS waiting
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'running', count(*),
       max(-62135596800000, min(min(coalesce(claimed_at, run_at)), 253402214400000)) * 1000, 0
FROM queue_jobs WHERE worker_id <> 0 GROUP BY kind, queue
UNION ALL
SELECT kind, queue, state, count(*), min(finished_at) * 1000, 0
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', count(*), min(finished_at) * 1000, 0
FROM queue_dead GROUP BY kind, queue

-- name: workers
-- Worker processes. Retention removes workers that stopped long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at * 1000,
       coalesce(b.heartbeat_at, w.heartbeat_at, started_at) * 1000,
       stopped_at * 1000,
       coalesce(b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), FALSE),
       limits
FROM queue_workers AS w
LEFT JOIN queue_heartbeats AS b ON b.worker_id = w.id AND w.stopped_at IS NULL
ORDER BY id

-- name: kinds
-- What the workers declared that started last.
SELECT DISTINCT kinds FROM (SELECT kinds FROM queue_workers ORDER BY id DESC LIMIT 1000) AS w

-- name: held
-- How many jobs each worker holds: worker, queue, number.
SELECT worker_id, queue, count(*) FROM queue_jobs WHERE worker_id <> 0 GROUP BY worker_id, queue

-- name: jobs_hot
-- Waiting and running jobs with ids above $1, up to $5, that match. NULL matches any. Arguments of at most $16 bytes
-- are returned if some are asked for: they contain $14, or the escape $15, which may stand for a part of it.
SELECT j.id, kind, queue, state, priority, j.attempt, max_retries,
       -- any integer may be stored: clamped to years 1 to 9999
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, nullif(j.worker_id, 0),
       cancel_requested_at IS NOT NULL, failed.error,
       CASE WHEN $14 IS NOT NULL AND length(CAST(j.args AS BLOB)) <= $16 THEN j.args END
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running'
                     WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
                     ELSE 'ready' END AS state
      FROM queue_jobs) AS j
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT max(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.id > $1 AND j.id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
  AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR instr(failed.error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR failed.ended_at >= $10 / 1000)
  AND ($11 IS NULL OR failed.ended_at < $11 / 1000)
  AND ($12 = 0 OR j.worker_id = 0 AND failed.error IS NOT NULL)
  AND ($13 IS NULL OR nullif(j.worker_id, 0) = $13)
  AND ($14 IS NULL OR instr(j.args, $14) > 0 OR instr(j.args, $15) > 0)
ORDER BY j.id

-- name: jobs_running
-- The same for running jobs. They are few: the index of held rows and a sort are faster than a walk over all waiting
-- rows.
SELECT j.id, kind, queue, 'running', priority, j.attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, j.worker_id,
       cancel_requested_at IS NOT NULL, failed.error,
       CASE WHEN $14 IS NOT NULL AND length(CAST(j.args AS BLOB)) <= $16 THEN j.args END
FROM queue_jobs AS j INDEXED BY queue_jobs_held
LEFT JOIN queue_attempts AS failed
    ON failed.job_id = j.id
    AND failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND failed.fence = (SELECT max(a.fence) FROM queue_attempts AS a
                        WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted'))
WHERE j.worker_id <> 0
  AND j.id > $1 AND j.id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
  AND ($4 IS NULL OR 'running' = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR instr(failed.error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR failed.ended_at >= $10 / 1000)
  AND ($11 IS NULL OR failed.ended_at < $11 / 1000)
  AND ($12 = 0 OR 0)
  AND ($13 IS NULL OR nullif(j.worker_id, 0) = $13)
  AND ($14 IS NULL OR instr(j.args, $14) > 0 OR instr(j.args, $15) > 0)
ORDER BY j.id

-- name: jobs_over
-- The same for completed and cancelled jobs.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error,
       CASE WHEN $14 IS NOT NULL AND length(CAST(args AS BLOB)) <= $16 THEN args END
FROM queue_history
WHERE id > $1 AND id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR instr(error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR NULL >= $10 / 1000)
  AND ($11 IS NULL OR NULL < $11 / 1000)
  AND ($12 = 0 OR 0)
  AND ($13 IS NULL OR nullif(worker_id, 0) = $13)
  AND ($14 IS NULL OR instr(args, $14) > 0 OR instr(args, $15) > 0)
ORDER BY id

-- name: jobs_dead
-- The same for dead letters.
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error,
       CASE WHEN $14 IS NOT NULL AND length(CAST(args AS BLOB)) <= $16 THEN args END
FROM queue_dead
WHERE id > $1 AND id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'dead' = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR instr(error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR finished_at >= $10 / 1000)
  AND ($11 IS NULL OR finished_at < $11 / 1000)
  AND ($12 = 0 OR 0)
  AND ($13 IS NULL OR nullif(worker_id, 0) = $13)
  AND ($14 IS NULL OR instr(args, $14) > 0 OR instr(args, $15) > 0)
ORDER BY id

-- name: slice_back
-- The next $6 rows with ids of $1 and below: the last id, how many they are, and when that job was enqueued. So many
-- are looked at: $2 waiting and running jobs, $3 of the running ones alone, $4 that are over, $5 dead letters. 0: none.
SELECT edge, number,
       max(-62135596800000, min(coalesce((SELECT enqueued_at FROM queue_jobs WHERE id = edge),
                                         (SELECT enqueued_at FROM queue_history WHERE id = edge),
                                         (SELECT enqueued_at FROM queue_dead WHERE id = edge)),
                                253402214400000)) * 1000
FROM (SELECT min(id) AS edge, count(*) AS number
      FROM (SELECT id
            FROM (SELECT * FROM (SELECT id FROM queue_jobs WHERE id <= $1 ORDER BY id DESC LIMIT +$2)
                  UNION ALL
                  SELECT * FROM (SELECT id FROM queue_jobs INDEXED BY queue_jobs_held
                                 WHERE worker_id <> 0 AND id <= $1 ORDER BY id DESC LIMIT +$3)
                  UNION ALL
                  SELECT * FROM (SELECT id FROM queue_history WHERE id <= $1 ORDER BY id DESC LIMIT +$4)
                  UNION ALL
                  SELECT * FROM (SELECT id FROM queue_dead WHERE id <= $1 ORDER BY id DESC LIMIT +$5)) AS ids
            ORDER BY id DESC LIMIT +$6) AS ids) AS slice

-- name: slice_on
-- The same for ids above $1, without the time.
SELECT max(id), count(*)
FROM (SELECT id
      FROM (SELECT * FROM (SELECT id FROM queue_jobs WHERE id > $1 ORDER BY id LIMIT +$2)
            UNION ALL
            SELECT * FROM (SELECT id FROM queue_jobs INDEXED BY queue_jobs_held
                           WHERE worker_id <> 0 AND id > $1 ORDER BY id LIMIT +$3)
            UNION ALL
            SELECT * FROM (SELECT id FROM queue_history WHERE id > $1 ORDER BY id LIMIT +$4)
            UNION ALL
            SELECT * FROM (SELECT id FROM queue_dead WHERE id > $1 ORDER BY id LIMIT +$5)) AS ids
      ORDER BY id LIMIT +$6) AS slice

-- name: job
-- One job, from any table. One statement is one snapshot: a job that moves meanwhile is found exactly once.
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running'
            WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
            ELSE 'ready' END,
       priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, nullif(worker_id, 0),
       cancel_requested_at IS NOT NULL,
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1),
       fence, args, NULL,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_jobs AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error, fence, args, result,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_history AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error, fence, args, NULL,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_dead AS j WHERE id = $1

-- name: place
-- What decides when a waiting job is claimed: now, since when its queue is paused, and how many jobs of its lane come
-- first (at most $6).
SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
       (SELECT paused_at * 1000 FROM queue_paused WHERE queue = $2),
       (SELECT count(*) FROM (SELECT 1 FROM queue_jobs INDEXED BY queue_jobs_waiting
                              WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
                                AND (run_at, id) < ($4 / 1000, $5)
                              ORDER BY run_at, id LIMIT +$6))

-- name: lock_free
-- A row if nobody has this waiting job locked. Here nobody can.
SELECT id FROM queue_jobs WHERE id = $1

-- name: attempts
-- The last 1000 recorded attempts of a job, up to the fence of its row, which was read just before. Nothing is recorded
-- later under a fence that is over, so they match that row.
SELECT attempt, worker_id, w.host || ':' || w.pid, a.started_at * 1000,
       ended_at * 1000, outcome, error
FROM queue_attempts AS a LEFT JOIN queue_workers AS w ON w.id = worker_id
WHERE job_id = $1 AND fence <= $2
ORDER BY fence DESC LIMIT 1000

-- name: ended
-- The attempts that ended last, at most $1 from each table: id, kind and queue (NULL: the job is gone), outcome, attempt,
-- worker, its name, start, end, whether it left a dead letter, and the first $2 characters of its error. The history has
-- the completed ones, and jobs that were cancelled while they waited.
WITH over AS MATERIALIZED (
    SELECT id, kind, queue, state, attempt, worker_id, started_at, finished_at, substr(error, 1, $2) AS error
    FROM queue_history ORDER BY finished_at DESC LIMIT +$1
), last AS MATERIALIZED (
    SELECT job_id, fence, attempt, worker_id, started_at, ended_at, outcome, substr(error, 1, $2) AS error
    FROM queue_attempts ORDER BY ended_at DESC LIMIT +$1
)
SELECT o.id, o.kind, o.queue, o.state, o.attempt, o.worker_id, w.host || ':' || w.pid, o.started_at * 1000,
       o.finished_at * 1000, 0, o.error
FROM over AS o LEFT JOIN queue_workers AS w ON w.id = o.worker_id
WHERE o.state = 'completed' OR o.started_at IS NULL
UNION ALL
SELECT a.job_id, coalesce(j.kind, d.kind, h.kind), coalesce(j.queue, d.queue, h.queue), a.outcome, a.attempt,
       a.worker_id, w.host || ':' || w.pid, a.started_at * 1000, a.ended_at * 1000,
       CASE WHEN d.fence = a.fence THEN 1 ELSE 0 END, a.error
FROM last AS a
LEFT JOIN queue_jobs AS j ON j.id = a.job_id
LEFT JOIN queue_dead AS d ON d.id = a.job_id
LEFT JOIN queue_history AS h ON h.id = a.job_id
LEFT JOIN queue_workers AS w ON w.id = a.worker_id

-- name: failures_dead
-- The $1 newest dead letters, counted by kind and error (its first $2 characters): kind, error, number, first and last
-- end, newest job.
WITH dead AS MATERIALIZED (
    SELECT kind, substr(error, 1, $2) AS error, finished_at, id FROM queue_dead ORDER BY id DESC LIMIT +$1
)
SELECT kind, error, count(*), min(finished_at) * 1000, max(finished_at) * 1000, max(id)
FROM dead GROUP BY kind, error

-- name: failures_retrying
-- The same for waiting jobs whose last attempt failed, among the $1 attempts that ended last. Attempts that a shutdown
-- released do not matter. All other attempts are one row without a kind.
WITH last AS MATERIALIZED (
    SELECT job_id, fence, outcome, substr(error, 1, $2) AS error, ended_at
    FROM queue_attempts ORDER BY ended_at DESC LIMIT +$1
)
SELECT j.kind, CASE WHEN j.kind IS NOT NULL THEN a.error END AS failure, count(*),
       min(a.ended_at) * 1000, max(a.ended_at) * 1000, max(a.job_id)
FROM last AS a
LEFT JOIN queue_jobs AS j
    ON j.id = a.job_id AND j.worker_id = 0 AND a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
    AND NOT EXISTS (SELECT 1 FROM queue_attempts AS b WHERE b.job_id = a.job_id AND b.fence > a.fence
        AND b.outcome NOT IN ('released', 'unstarted'))
GROUP BY j.kind, failure

-- name: pause
INSERT INTO queue_paused (queue, paused_at) VALUES ($1, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
ON CONFLICT DO NOTHING

-- name: run_now
-- Makes scheduled jobs ready.
UPDATE queue_jobs SET run_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
  AND worker_id = 0 AND run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
RETURNING id

-- name: reschedule
-- Sets another due time for waiting jobs. The table rejects times in the first years after 1970, which look like
-- seconds instead of milliseconds. Such a time becomes 1970, which is due as well.
UPDATE queue_jobs SET run_at = iif(b.run_at BETWEEN 1 AND 99999999999, 0, b.run_at)
FROM (SELECT value ->> 'id' AS id, (value ->> 'run_at') / 1000 AS run_at FROM json_each($1)) AS b
WHERE queue_jobs.id = b.id AND worker_id = 0
RETURNING id

-- name: cancel
-- step: find
-- The waiting and running jobs among these. No lock: the transaction is already the only writer.
SELECT id FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: found
-- Cancels waiting jobs: a trigger deletes them from queue_jobs.
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, finished_at, error, meta)
SELECT j.id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), b.reason, j.meta
FROM (SELECT value ->> 'id' AS id, value ->> 'reason' AS reason FROM json_each($1)) AS b
CROSS JOIN queue_jobs AS j ON j.id = b.id
WHERE worker_id = 0

-- step: found
-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE queue_jobs SET cancel_requested_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
  AND worker_id <> 0 AND cancel_requested_at IS NULL

-- name: send_back
-- step: find
-- The dead letters among these jobs. No lock: the transaction is already the only writer.
SELECT id, features FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: found
-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
-- The next step removes them.
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at, meta)
SELECT id, kind, queue, args, priority, features, max_retries, enqueued_at, fence,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), meta
FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: found
DELETE FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- name: delete
-- step: find
DELETE FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) RETURNING id

-- step: found
DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: find
DELETE FROM queue_history WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) RETURNING id

-- step: found
DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: find
DELETE FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1)) AND worker_id = 0 RETURNING id

-- step: found
DELETE FROM queue_attempts WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1))

-- name: edit
-- step: find
-- With `was`, only if the arguments are these.
UPDATE queue_dead SET args = b.args
FROM (SELECT value ->> 'id' AS id, value ->> 'args' AS args, value ->> 'was' AS was FROM json_each($1)) AS b
WHERE queue_dead.id = b.id AND (b.was IS NULL OR queue_dead.args = b.was)
RETURNING id

-- step: find
UPDATE queue_jobs SET args = b.args
FROM (SELECT value ->> 'id' AS id, value ->> 'args' AS args, value ->> 'was' AS was FROM json_each($1)) AS b
WHERE queue_jobs.id = b.id AND worker_id = 0 AND (b.was IS NULL OR queue_jobs.args = b.was)
RETURNING id
