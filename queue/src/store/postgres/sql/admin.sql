-- The administration: what it shows and changes.

-- name: stats
-- Jobs by kind, queue and state, and how many of them are retrying.
SELECT kind, queue, state, count(*), least(greatest(min(since), '0001-01-01Z'), '9999-12-31Z'),
       count(*) FILTER (WHERE retrying)
FROM (SELECT kind, queue, CASE WHEN worker_id = 0 THEN run_at ELSE coalesce(claimed_at, run_at) END AS since,
             CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state,
             worker_id = 0 AND fence > 0
             AND (SELECT a.outcome FROM queue_attempts AS a
                  WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                  ORDER BY a.fence DESC LIMIT 1)
                 IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') AS retrying
      FROM queue_jobs AS j) AS jobs
GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, state, count(*), min(finished_at), 0
FROM queue_history GROUP BY kind, queue, state
UNION ALL
SELECT kind, queue, 'dead', count(*), min(finished_at), 0
FROM queue_dead GROUP BY kind, queue

-- name: workers
-- Worker processes. Retention removes workers that stopped long ago.
SELECT id, host, pid, concurrency, queues, kinds,
       started_at,
       coalesce(b.heartbeat_at, w.heartbeat_at, started_at),
       stopped_at,
       coalesce(b.expires_at > now(), FALSE),
       limits
FROM queue_workers AS w
LEFT JOIN LATERAL (SELECT heartbeat_at, expires_at FROM queue_heartbeats
                   WHERE worker_id = w.id AND w.stopped_at IS NULL ORDER BY heartbeat_at DESC LIMIT 1) AS b ON TRUE
ORDER BY id

-- name: kinds
-- What the workers declared that started last.
SELECT DISTINCT kinds::text FROM (SELECT kinds FROM queue_workers ORDER BY id DESC LIMIT 1000) AS w

-- name: held
-- How many jobs each worker holds: worker, queue, number.
SELECT c.worker_id, j.queue, count(DISTINCT j.id)
FROM queue_claims AS c
CROSS JOIN unnest(c.job_ids) AS claimed(id)
CROSS JOIN LATERAL (SELECT j.id, j.queue FROM queue_jobs AS j
                    WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS j
GROUP BY c.worker_id, j.queue

-- name: jobs_hot
-- Waiting and running jobs with ids above $1, up to $5, that match. NULL matches any. Arguments of at most $16 bytes
-- are returned if some are asked for: they contain $14, or the escape $15, which may stand for a part of it.
SELECT j.id, kind, queue, state, priority, j.attempt, max_retries,
       -- other languages have no 'infinity': clamped to years 1 to 9999
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, nullif(j.worker_id, 0),
       cancel_requested_at IS NOT NULL, failed.error,
       CASE WHEN $14 IS NOT NULL AND octet_length(j.args::text) <= $16 THEN j.args END
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state
      FROM queue_jobs) AS j
LEFT JOIN LATERAL (SELECT a.outcome, a.error, a.ended_at FROM queue_attempts AS a
                   WHERE j.fence > 0 AND a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                   ORDER BY a.fence DESC LIMIT 1) AS failed
    ON failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
WHERE j.id > $1 AND j.id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
  AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR position($7 IN failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= timestamptz '1970-01-01Z' + $8 * interval '1 microsecond')
  AND ($9 IS NULL OR enqueued_at < timestamptz '1970-01-01Z' + $9 * interval '1 microsecond')
  AND ($10 IS NULL OR failed.ended_at >= timestamptz '1970-01-01Z' + $10 * interval '1 microsecond')
  AND ($11 IS NULL OR failed.ended_at < timestamptz '1970-01-01Z' + $11 * interval '1 microsecond')
  AND ($12 = 0 OR j.worker_id = 0 AND failed.error IS NOT NULL)
  AND ($13 IS NULL OR nullif(j.worker_id, 0) = $13)
  AND ($14 IS NULL OR position($14 IN j.args::text) > 0 OR position($15 IN j.args::text) > 0)
ORDER BY j.id

-- name: jobs_running
-- The same for running jobs, found through the claim records: no walk over all waiting rows.
SELECT j.id, kind, queue, 'running', priority, j.attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, j.worker_id,
       cancel_requested_at IS NOT NULL, failed.error,
       CASE WHEN $14 IS NOT NULL AND octet_length(j.args::text) <= $16 THEN j.args END
FROM queue_jobs AS j
LEFT JOIN LATERAL (SELECT a.outcome, a.error, a.ended_at FROM queue_attempts AS a
                   WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                   ORDER BY a.fence DESC LIMIT 1) AS failed
    ON failed.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
WHERE j.id = ANY (ARRAY(SELECT unnest(job_ids) FROM queue_claims)) AND j.worker_id <> 0
  AND j.id > $1 AND j.id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
  AND ($4 IS NULL OR 'running' = $4)
  AND ($6 IS NULL OR j.attempt >= $6) AND ($7 IS NULL OR position($7 IN failed.error) > 0)
  AND ($8 IS NULL OR enqueued_at >= timestamptz '1970-01-01Z' + $8 * interval '1 microsecond')
  AND ($9 IS NULL OR enqueued_at < timestamptz '1970-01-01Z' + $9 * interval '1 microsecond')
  AND ($10 IS NULL OR failed.ended_at >= timestamptz '1970-01-01Z' + $10 * interval '1 microsecond')
  AND ($11 IS NULL OR failed.ended_at < timestamptz '1970-01-01Z' + $11 * interval '1 microsecond')
  AND ($12 = 0 OR false)
  AND ($13 IS NULL OR nullif(j.worker_id, 0) = $13)
  AND ($14 IS NULL OR position($14 IN j.args::text) > 0 OR position($15 IN j.args::text) > 0)
ORDER BY j.id

-- name: jobs_over
-- The same for completed and cancelled jobs.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error,
       CASE WHEN $14 IS NOT NULL AND octet_length(args::text) <= $16 THEN args END
FROM queue_history
WHERE id > $1 AND id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR position($7 IN error) > 0)
  AND ($8 IS NULL OR enqueued_at >= timestamptz '1970-01-01Z' + $8 * interval '1 microsecond')
  AND ($9 IS NULL OR enqueued_at < timestamptz '1970-01-01Z' + $9 * interval '1 microsecond')
  AND ($10 IS NULL OR NULL::timestamptz >= timestamptz '1970-01-01Z' + $10 * interval '1 microsecond')
  AND ($11 IS NULL OR NULL::timestamptz < timestamptz '1970-01-01Z' + $11 * interval '1 microsecond')
  AND ($12 = 0 OR false)
  AND ($13 IS NULL OR nullif(worker_id, 0) = $13)
  AND ($14 IS NULL OR position($14 IN args::text) > 0 OR position($15 IN args::text) > 0)
ORDER BY id

-- name: jobs_dead
-- The same for dead letters.
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error,
       CASE WHEN $14 IS NOT NULL AND octet_length(args::text) <= $16 THEN args END
FROM queue_dead
WHERE id > $1 AND id <= $5 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'dead' = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR position($7 IN error) > 0)
  AND ($8 IS NULL OR enqueued_at >= timestamptz '1970-01-01Z' + $8 * interval '1 microsecond')
  AND ($9 IS NULL OR enqueued_at < timestamptz '1970-01-01Z' + $9 * interval '1 microsecond')
  AND ($10 IS NULL OR finished_at >= timestamptz '1970-01-01Z' + $10 * interval '1 microsecond')
  AND ($11 IS NULL OR finished_at < timestamptz '1970-01-01Z' + $11 * interval '1 microsecond')
  AND ($12 = 0 OR false)
  AND ($13 IS NULL OR nullif(worker_id, 0) = $13)
  AND ($14 IS NULL OR position($14 IN args::text) > 0 OR position($15 IN args::text) > 0)
ORDER BY id

-- name: slice_back
-- The next $6 rows with ids of $1 and below: the last id, how many they are, and when that job was enqueued. So many
-- are looked at: $2 waiting and running jobs, $3 of the running ones alone, $4 that are over, $5 dead letters. 0: none.
SELECT edge, number,
       coalesce((SELECT least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z') FROM queue_jobs WHERE id = edge),
                (SELECT least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z') FROM queue_history WHERE id = edge),
                (SELECT least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z') FROM queue_dead WHERE id = edge))
FROM (SELECT min(id) AS edge, count(*) AS number
      FROM (SELECT id
            FROM ((SELECT id FROM queue_jobs WHERE id <= $1 ORDER BY id DESC LIMIT $2)
                  UNION ALL
                  (SELECT DISTINCT id FROM (SELECT unnest(job_ids) AS id FROM queue_claims) AS c
                   WHERE id <= $1 ORDER BY id DESC LIMIT $3)
                  UNION ALL
                  (SELECT id FROM queue_history WHERE id <= $1 ORDER BY id DESC LIMIT $4)
                  UNION ALL
                  (SELECT id FROM queue_dead WHERE id <= $1 ORDER BY id DESC LIMIT $5)) AS ids
            ORDER BY id DESC LIMIT $6) AS ids) AS slice

-- name: slice_on
-- The same for ids above $1, without the time.
SELECT max(id), count(*)
FROM (SELECT id
      FROM ((SELECT id FROM queue_jobs WHERE id > $1 ORDER BY id LIMIT $2)
            UNION ALL
            (SELECT DISTINCT id FROM (SELECT unnest(job_ids) AS id FROM queue_claims) AS c
             WHERE id > $1 ORDER BY id LIMIT $3)
            UNION ALL
            (SELECT id FROM queue_history WHERE id > $1 ORDER BY id LIMIT $4)
            UNION ALL
            (SELECT id FROM queue_dead WHERE id > $1 ORDER BY id LIMIT $5)) AS ids
      ORDER BY id LIMIT $6) AS slice

-- name: job
-- One job, from any table. One statement is one snapshot: a job that moves meanwhile is found exactly once.
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END,
       priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, nullif(worker_id, 0),
       cancel_requested_at IS NOT NULL,
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1),
       fence, args, NULL::json,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_jobs AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error, fence, args, result,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_history AS j WHERE id = $1
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error, fence, args, NULL::json,
       (SELECT w.host || ':' || w.pid FROM queue_workers AS w WHERE w.id = j.worker_id), meta
FROM queue_dead AS j WHERE id = $1

-- name: place
-- What decides when a waiting job is claimed: now, since when its queue is paused, and how many jobs of its lane come
-- first (at most $6).
SELECT now(), (SELECT paused_at FROM queue_paused WHERE queue = $2),
       (SELECT count(*) FROM (SELECT FROM queue_jobs AS j
                              WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3
                                AND (j.run_at, +j.id) < (timestamptz 'epoch' + $4 * interval '1 microsecond', $5)
                              ORDER BY j.run_at, (+j.id) LIMIT $6) AS before)

-- name: lock_free
-- A row if nobody has this waiting job locked.
SELECT id FROM queue_jobs WHERE id = $1 FOR UPDATE SKIP LOCKED

-- name: attempts
-- The last 1000 recorded attempts of a job, up to the fence of its row, which was read just before. Nothing is recorded
-- later under a fence that is over, so they match that row.
SELECT attempt, worker_id, w.host || ':' || w.pid, a.started_at, ended_at, outcome, error
FROM queue_attempts AS a LEFT JOIN queue_workers AS w ON w.id = worker_id
WHERE job_id = $1 AND fence <= $2
ORDER BY fence DESC LIMIT 1000

-- name: ended
-- The attempts that ended last, at most $1 from each table: id, kind and queue (NULL: the job is gone), outcome, attempt,
-- worker, its name, start, end, whether it left a dead letter, and the first $2 characters of its error. The history has
-- the completed ones, and jobs that were cancelled while they waited.
WITH over AS MATERIALIZED (
    SELECT id, kind, queue, state, attempt, worker_id, started_at, finished_at, left(error, $2::integer) AS error
    FROM queue_history ORDER BY finished_at DESC LIMIT $1
), last AS MATERIALIZED (
    SELECT job_id, fence, attempt, worker_id, started_at, ended_at, outcome, left(error, $2::integer) AS error
    FROM queue_attempts ORDER BY ended_at DESC LIMIT $1
)
SELECT o.id, o.kind, o.queue, o.state, o.attempt, o.worker_id, w.host || ':' || w.pid, o.started_at, o.finished_at, 0,
       o.error
FROM over AS o LEFT JOIN queue_workers AS w ON w.id = o.worker_id
WHERE o.state = 'completed' OR o.started_at IS NULL
UNION ALL
SELECT a.job_id, coalesce(j.kind, d.kind, h.kind), coalesce(j.queue, d.queue, h.queue), a.outcome, a.attempt,
       a.worker_id, w.host || ':' || w.pid, a.started_at, a.ended_at, CASE WHEN d.fence = a.fence THEN 1 ELSE 0 END,
       a.error
FROM last AS a
LEFT JOIN LATERAL (SELECT kind, queue FROM queue_jobs WHERE id = a.job_id LIMIT 1) AS j ON true
LEFT JOIN LATERAL (SELECT kind, queue, fence FROM queue_dead WHERE id = a.job_id LIMIT 1) AS d ON true
LEFT JOIN LATERAL (SELECT kind, queue FROM queue_history WHERE id = a.job_id LIMIT 1) AS h ON true
LEFT JOIN queue_workers AS w ON w.id = a.worker_id

-- name: failures_dead
-- The $1 newest dead letters, counted by kind and error (its first $2 characters): kind, error, number, first and last
-- end, newest job.
WITH dead AS MATERIALIZED (
    SELECT kind, left(error, $2::integer) AS error, finished_at, id FROM queue_dead ORDER BY id DESC LIMIT $1
)
SELECT kind, error, count(*), min(finished_at), max(finished_at), max(id)
FROM dead GROUP BY kind, error

-- name: failures_retrying
-- The same for waiting jobs whose last attempt failed, among the $1 attempts that ended last. Attempts that a shutdown
-- released do not matter. All other attempts are one row without a kind. (LATERAL with a limit:
-- the plan stays on the primary key, whatever the statistics say.)
WITH last AS MATERIALIZED (
    SELECT job_id, fence, outcome, left(error, $2::integer) AS error, ended_at
    FROM queue_attempts ORDER BY ended_at DESC LIMIT $1
)
SELECT j.kind, CASE WHEN j.kind IS NOT NULL THEN a.error END AS failure, count(*),
       min(a.ended_at), max(a.ended_at), max(a.job_id)
FROM last AS a
LEFT JOIN LATERAL (SELECT j.kind FROM queue_jobs AS j
                   WHERE j.id = a.job_id AND j.worker_id = 0
                     AND a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
                     AND NOT EXISTS (SELECT FROM queue_attempts AS b WHERE b.job_id = a.job_id AND b.fence > a.fence
                         AND b.outcome NOT IN ('released', 'unstarted'))
                   LIMIT 1) AS j ON true
GROUP BY j.kind, failure

-- name: pause
INSERT INTO queue_paused (queue) VALUES ($1) ON CONFLICT DO NOTHING

-- name: run_now
-- Makes scheduled jobs ready.
UPDATE queue_jobs SET run_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
  AND worker_id = 0 AND run_at > now()
RETURNING id

-- name: reschedule
-- Sets another due time for waiting jobs.
UPDATE queue_jobs AS j SET run_at = timestamptz '1970-01-01Z' + b.run_at * interval '1 microsecond'
FROM json_to_recordset($1::json) AS b (id bigint, run_at bigint)
WHERE j.id = b.id AND j.worker_id = 0
RETURNING j.id

-- name: cancel
-- step: find
-- Locks the waiting and running jobs among these, so that none can change from one to the other. It is a step
-- of its own, so that the next ones see each job as it is: one statement that met a job on its way from running to
-- waiting would cancel neither.
SELECT id FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
ORDER BY id FOR UPDATE SKIP LOCKED

-- step: found
-- Cancels waiting jobs. The rows are locked.
WITH gone AS (
    DELETE FROM queue_jobs
    WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
      AND worker_id = 0
    RETURNING *
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, error, meta)
SELECT id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt, fence, 0, enqueued_at, run_at,
       reason, meta
FROM gone JOIN json_to_recordset($1::json) AS b (id bigint, reason text) USING (id)

-- step: found
-- Requests the cancellation of held jobs. Their workers learn of it with their next heartbeat.
UPDATE queue_jobs SET cancel_requested_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
  AND worker_id <> 0 AND cancel_requested_at IS NULL

-- name: send_back
-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
WITH gone AS (
    DELETE FROM queue_dead
    WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
    RETURNING *
)
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at, meta)
    OVERRIDING SYSTEM VALUE
SELECT id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, now(), meta FROM gone
RETURNING id, features

-- name: delete
-- step: find
DELETE FROM queue_dead
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
RETURNING id

-- step: found
DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))

-- step: find
DELETE FROM queue_history
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
RETURNING id

-- step: found
DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))

-- step: find
DELETE FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint))) AND worker_id = 0
RETURNING id

-- step: found
DELETE FROM queue_attempts
WHERE job_id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))

-- name: edit
-- step: find
-- With `was`, only if the arguments are these.
UPDATE queue_dead AS j SET args = b.args::json FROM json_to_recordset($1::json) AS b (id bigint, args text, was text)
WHERE j.id = b.id AND (b.was IS NULL OR j.args::text = b.was)
RETURNING j.id

-- step: find
UPDATE queue_jobs AS j SET args = b.args::json FROM json_to_recordset($1::json) AS b (id bigint, args text, was text)
WHERE j.id = b.id AND j.worker_id = 0 AND (b.was IS NULL OR j.args::text = b.was)
RETURNING j.id
