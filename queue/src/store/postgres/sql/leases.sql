-- Workers: joining, heartbeats, losses, and the rescue of their jobs.

-- name: join
WITH worker AS (
    INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, limits)
    VALUES ($1, $2, $3, $4::json, $5::json, $6::json)
    RETURNING id
), beat AS (
    INSERT INTO queue_heartbeats (worker_id, expires_at) SELECT id, now() + $7 * interval '1 microsecond' FROM worker
)
SELECT id FROM worker

-- name: heartbeat
-- A heartbeat in one statement, because an idle worker sends hardly any other. It covers up to 32 other workers, the
-- next 16 by id and the first 16, so that several workers watch each one. A lock that can be taken is held by no
-- session. It is released when this statement ends.
-- Claim records that the worker reports as settled are deleted only in the session that answered its last heartbeat: a
-- server that has failed may have lost commits that it had acknowledged. In a new session all its records are checked.
-- The last heartbeat of a worker is the last of its index entries: see queue_heartbeats.
WITH beat AS (
    UPDATE queue_heartbeats SET heartbeat_at = now(), expires_at = now() + $2 * interval '1 microsecond',
        server_run = $8,
                                next_heartbeat_at = now() + $9 * interval '1 microsecond'
    WHERE worker_id = $1
      AND heartbeat_at >= (SELECT heartbeat_at FROM queue_heartbeats WHERE worker_id = $1
          ORDER BY heartbeat_at DESC LIMIT 1)
      AND EXISTS (SELECT FROM queue_workers WHERE id = $1 AND stopped_at IS NULL)
    RETURNING worker_id
), other AS MATERIALIZED (
    SELECT near.id, last.*
    FROM ((SELECT id FROM queue_workers WHERE stopped_at IS NULL AND id > $1 ORDER BY id LIMIT 16)
          UNION ALL
          (SELECT id FROM queue_workers WHERE stopped_at IS NULL AND id < $1 ORDER BY id LIMIT 16)) AS near
    CROSS JOIN LATERAL (SELECT heartbeat_at, expires_at, server_run, next_heartbeat_at
                        FROM queue_heartbeats WHERE worker_id = near.id ORDER BY heartbeat_at DESC LIMIT 1) AS last
), settled AS MATERIALIZED (
    SELECT told::bigint AS id FROM json_array_elements_text($5::json) AS told WHERE pg_backend_pid() = $7
), found AS MATERIALIZED (
    -- records that it does not report; LIMIT keeps each job a lookup by key, whatever the statistics say
    SELECT c.id FROM queue_claims AS c
    WHERE ($6 = 1 OR pg_backend_pid() <> $7) AND c.worker_id = $1 AND c.id NOT IN (SELECT id FROM settled)
      AND NOT EXISTS (SELECT FROM unnest(c.job_ids) AS claimed(id)
                      CROSS JOIN LATERAL (SELECT FROM queue_jobs AS j
                                          WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS job)
), forgotten AS (
    DELETE FROM queue_claims
    WHERE worker_id = $1 AND id = ANY (ARRAY(SELECT id FROM settled UNION ALL SELECT id FROM found))
)
SELECT EXISTS (SELECT FROM beat),
       EXISTS (SELECT FROM json_array_elements_text($3::json) AS served(kind)
               CROSS JOIN LATERAL (SELECT 1 FROM queue_jobs AS j
                                   WHERE j.worker_id = 0 AND j.kind = served.kind
                                   ORDER BY j.kind, j.queue, j.priority, j.run_at LIMIT 1) AS waiting),
       (SELECT json_agg(json_build_array(id, fence))::text FROM queue_jobs
        WHERE id = ANY (ARRAY(SELECT running::bigint FROM json_array_elements_text($4::json) AS running))
          AND worker_id = $1 AND cancel_requested_at IS NOT NULL),
       pg_backend_pid(),
       (SELECT json_agg(json_build_array(
                   id,
                   (NOT pg_try_advisory_xact_lock_shared(
                       'queue_workers'::regclass::oid::integer, (id % 2147483648)::integer))::integer,
                   (NOT pg_try_advisory_xact_lock_shared(
                       'queue_jobs'::regclass::oid::integer, (id % 2147483648)::integer))::integer,
                   (extract(epoch FROM heartbeat_at) * 1000000)::bigint,
                   server_run,
                   coalesce((extract(epoch FROM now() - next_heartbeat_at) * 1000000)::bigint, 0),
                   (extract(epoch FROM expires_at - now()) * 1000000)::bigint,
                   (extract(epoch FROM expires_at - heartbeat_at) * 1000000)::bigint))::text
        FROM other)

-- name: holding
-- As `lost`, for the jobs of one worker.
SELECT DISTINCT held.id, held.fence
FROM queue_claims AS c
CROSS JOIN unnest(c.job_ids) AS claimed(id)
CROSS JOIN LATERAL (
    SELECT j.id, j.fence FROM queue_jobs AS j
    WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS held
WHERE c.worker_id = $1

-- name: leave
-- If both times are the same, the worker was well all the time (`lock_lost`).
UPDATE queue_workers SET stopped_at = now(), heartbeat_at = now() - $2 * interval '1 microsecond'
WHERE id = $1 AND stopped_at IS NULL

-- name: declare_lost
-- Declares a worker lost whose lease has run out ($3 = 1), or whose liveness lock is free. A free lock counts only in
-- the server run in which the lock was held. SKIP LOCKED: a locked heartbeat is just being written by its own worker.
WITH gone AS (
    DELETE FROM queue_heartbeats
    WHERE worker_id = $1 AND heartbeat_at = ANY (ARRAY(
        SELECT heartbeat_at FROM queue_heartbeats
        WHERE worker_id = $1 AND heartbeat_at = timestamptz 'epoch' + $2 * interval '1 microsecond'
          AND CASE WHEN $3 = 1 THEN expires_at < now() ELSE
              server_run = (SELECT (extract(epoch FROM greatest(pg_postmaster_start_time(), stats_reset))
                  * 1000000)::bigint
                            FROM pg_stat_bgwriter)
              AND pg_try_advisory_xact_lock_shared('queue_workers'::regclass::oid::integer, ($1 % 2147483648)::integer)
                  END
        FOR UPDATE SKIP LOCKED))
    RETURNING heartbeat_at
)
UPDATE queue_workers SET stopped_at = now(), heartbeat_at = gone.heartbeat_at
FROM gone WHERE id = $1 AND stopped_at IS NULL
RETURNING id

-- name: lost
-- The jobs of workers that are lost, stopped or unknown, found through their claim records. (LIMIT 1 keeps each job a
-- lookup by key, whatever the statistics say.)
SELECT DISTINCT held.id, c.worker_id
FROM queue_claims AS c
CROSS JOIN unnest(c.job_ids) AS claimed(id)
CROSS JOIN LATERAL (SELECT j.id FROM queue_jobs AS j
    WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS held
WHERE c.worker_id NOT IN (SELECT id FROM queue_workers WHERE stopped_at IS NULL)
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
SELECT j.id,
       CASE WHEN j.started_fence = j.fence AND j.attempt + doubt.attempts > j.max_retries THEN 'dead'
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN j.started_fence = j.fence THEN 'ready'
            WHEN j.losses > 0 OR j.attempt >= j.max_retries THEN 'unstarted'
            ELSE 'unknown' END,
       doubt.attempts,
       j.losses + CASE WHEN w.heartbeat_at = w.stopped_at
                         OR j.started_fence <> j.fence AND (j.losses > 0 OR j.attempt >= j.max_retries)
                       THEN 0 ELSE 1 END,
       'the worker' || coalesce(' (' || w.host || ':' || w.pid || ')', '')
       || CASE WHEN j.started_fence = j.fence THEN ' running this job was lost'
           ELSE ' was lost before it was known to have started this job' END
       || coalesce(' (no heartbeat since ' || to_char(w.heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
           || ' UTC)', '')
       || CASE WHEN j.started_fence <> j.fence OR j.max_neighbours IS NULL THEN ''
               WHEN j.max_neighbours = 0 THEN '; no other job ran beside it'
               ELSE '; it ran beside at most ' || j.max_neighbours || ' others' END,
       j.kind, j.queue
FROM queue_jobs AS j
LEFT JOIN queue_workers AS w ON w.id = j.worker_id
CROSS JOIN LATERAL (
    SELECT count(*) AS attempts FROM queue_attempts AS a
    WHERE a.job_id = j.id AND a.outcome = 'unstarted' AND j.started_fence = j.fence AND j.max_neighbours = 0) AS doubt
WHERE j.id = ANY (ARRAY(SELECT d.id FROM json_to_recordset($1::json) AS d (id bigint)))
  AND (j.id, j.worker_id) IN (SELECT d.id, d.worker_id
      FROM json_to_recordset($1::json) AS d (id bigint, worker_id bigint))
  AND NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = j.worker_id AND w.stopped_at IS NULL)
ORDER BY j.id
FOR UPDATE OF j SKIP LOCKED

-- name: rescue
-- Rescues locked jobs. $1: the answer of `lock_lost`. From its second loss on, a job waits for a random time, so that
-- jobs that were lost together do not all meet again.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS d (id bigint, fate text, doubts integer, losses integer, error text)
), lost AS MATERIALIZED (
    SELECT j.*, d.fate, d.doubts, d.error
    FROM queue_jobs AS j
    JOIN batch AS d USING (id)
    WHERE j.id = ANY (ARRAY(SELECT id FROM batch))
), blamed AS (
    UPDATE queue_attempts SET outcome = 'lost'
    WHERE job_id = ANY (ARRAY(SELECT id FROM batch WHERE doubts > 0)) AND outcome = 'unstarted'
), recorded AS (
    INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT id, fence, attempt + doubts, worker_id, coalesce(claimed_at, now()), now(),
           CASE fate WHEN 'unknown' THEN 'unstarted' ELSE 'lost' END, error
    FROM lost WHERE fate <> 'unstarted'
    ON CONFLICT DO NOTHING
), history AS (
    INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                               enqueued_at, run_at, started_at, finished_at, error, meta)
    SELECT id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt + doubts, fence, worker_id,
           enqueued_at, run_at, claimed_at, now(), 'cancelled on request; ' || error
   , meta FROM lost WHERE fate = 'cancelled'
), dead AS (
    INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id,
                            enqueued_at, run_at, started_at, finished_at, error, meta)
    SELECT id, kind, queue, args, priority, features, max_retries, attempt + doubts, fence, worker_id, enqueued_at,
           run_at, claimed_at, now(), error
   , meta FROM lost WHERE fate = 'dead'
), gone AS (
    DELETE FROM queue_jobs WHERE id = ANY (ARRAY(SELECT id FROM batch WHERE fate IN ('dead', 'cancelled')))
)
UPDATE queue_jobs AS j
SET worker_id = 0, claimed_at = NULL,
    attempt = greatest(CASE WHEN d.fate = 'ready' THEN j.attempt + d.doubts ELSE j.attempt - 1 END, 0),
    losses = least(d.losses, 1000),
    run_at = CASE WHEN d.fate = 'ready' AND d.losses > 1
                  THEN now() + random() * least(2 ^ least(d.losses - 1, 10), 600) * interval '1 second'
                  ELSE j.run_at END
FROM batch AS d
WHERE j.id = ANY (ARRAY(SELECT id FROM batch WHERE fate IN ('ready', 'unstarted', 'unknown'))) AND d.id = j.id

-- name: forget_claims
-- Deletes the claim records of lost or stopped workers without held jobs. SKIP LOCKED: concurrent rescues do not wait
-- for each other. NOT IN hashes the live workers; arrays and a LIMIT keep the rest on the keys, whatever the statistics
-- say.
WITH left_behind AS MATERIALIZED (
    SELECT worker_id, id, job_ids FROM queue_claims
    WHERE worker_id NOT IN (SELECT id FROM queue_workers WHERE stopped_at IS NULL)
), over AS MATERIALIZED (
    SELECT c.worker_id, c.id FROM left_behind AS c
    WHERE NOT EXISTS (SELECT FROM unnest(c.job_ids) AS claimed(id)
                      CROSS JOIN LATERAL (SELECT FROM queue_jobs AS j
                                          WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS job)
), free AS MATERIALIZED (
    SELECT worker_id, id FROM queue_claims
    WHERE worker_id = ANY (ARRAY(SELECT worker_id FROM over)) AND id = ANY (ARRAY(SELECT id FROM over))
    FOR UPDATE SKIP LOCKED
)
DELETE FROM queue_claims
WHERE worker_id = ANY (ARRAY(SELECT worker_id FROM free)) AND id = ANY (ARRAY(SELECT id FROM free))

-- name: purge_workers
DELETE FROM queue_workers WHERE stopped_at < now() - $1 * interval '1 microsecond'
