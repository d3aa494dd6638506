-- A held job, from the start of its handler to the end of the attempt.

-- name: started
-- Records that attempts have begun. For "IS TRUE" see `bury`.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($2::json) AS d (id bigint, fence integer, max_neighbours integer)
)
UPDATE queue_jobs AS j
SET started_fence = fence, max_neighbours = (SELECT d.max_neighbours FROM batch AS d WHERE d.id = j.id LIMIT 1)
WHERE j.id = ANY (ARRAY(SELECT id FROM batch)) AND j.worker_id = $1
  AND ((j.id, j.fence) IN (SELECT id, fence FROM batch)) IS TRUE
RETURNING j.id

-- name: undecodable
-- How long ago the arguments of a job first did not decode, if they never did since.
SELECT COALESCE((extract(epoch FROM now() - min(started_at)) * 1000000)::bigint, 0)
FROM queue_attempts
WHERE job_id = $1 AND outcome = 'undecodable'
  AND fence > COALESCE((SELECT MAX(b.fence) FROM queue_attempts AS b
                        WHERE b.job_id = $1 AND b.outcome NOT IN ('undecodable', 'released', 'lost', 'unstarted')), 0)

-- name: finish
-- Moves finished jobs to the history. Nothing is joined, so the plan stays on the primary key, whatever the statistics
-- say: $2 is sorted and has no duplicates, and width_bucket gives the position of a job in it. Values that few jobs
-- have are JSON, parsed once: NULL, or {"state": [ ... ], "result": [ ... ], "error": [ ... ]} in the same order. A
-- list that no job needs is left out.
WITH told AS MATERIALIZED (
    SELECT $5::jsonb AS list
), gone AS (
    DELETE FROM queue_jobs
    WHERE id = ANY ($2::bigint[]) AND worker_id = $1 AND fence = ($3::bigint[])[width_bucket(id, $2::bigint[])]
    RETURNING *, width_bucket(id, $2::bigint[]) AS place
), ended AS NOT MATERIALIZED (
    SELECT *, now() - ($4::bigint[])[place] * interval '1 microsecond' AS began,
           coalesce((SELECT list -> 'state' FROM told) ->> (place - 1), 'completed') AS state,
           (SELECT list -> 'result' FROM told) ->> (place - 1) AS result,
           (SELECT list -> 'error' FROM told) ->> (place - 1) AS error
    FROM gone
), recorded AS (
    INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT id, fence, attempt, worker_id, began, now(), state, error
    FROM ended WHERE $5 IS NOT NULL AND state = 'cancelled'
    ON CONFLICT DO NOTHING
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
       run_at, began, now(), result::json, error, meta
FROM ended
RETURNING id

-- name: requeue
-- Returns jobs to the queue. A job whose cancellation was requested meanwhile ends as cancelled instead. Of the
-- attempts of a job that do not count (snoozed, released), keeps only the last 100 to 200. For "IS TRUE" see `bury`.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($2::json)
        AS d (id bigint, fence integer, ran_us bigint, outcome text, delay_us bigint, uncount integer, record boolean,
              forget integer, error text)
), held AS MATERIALIZED (
    SELECT j.id, j.fence, j.attempt, j.cancel_requested_at IS NOT NULL AS cancelled
    FROM queue_jobs AS j
    WHERE j.id = ANY (ARRAY(SELECT id FROM batch)) AND j.worker_id = $1
      AND ((j.id, j.fence) IN (SELECT id, fence FROM batch)) IS TRUE
    ORDER BY j.id
    FOR UPDATE
), gone AS (
    DELETE FROM queue_jobs WHERE id = ANY (ARRAY(SELECT id FROM held WHERE cancelled))
    RETURNING *
), history AS (
    INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                               enqueued_at, run_at, started_at, finished_at, error, meta)
    SELECT g.id, g.kind, g.queue, 'cancelled', g.args, g.priority, g.features, g.max_retries, g.attempt - d.uncount,
           g.fence, g.worker_id, g.enqueued_at, g.run_at,
           CASE WHEN d.record THEN now() - d.ran_us * interval '1 microsecond' END, now(), 'cancelled on request'
   , g.meta FROM gone AS g JOIN batch AS d USING (id, fence)
), back AS (
    UPDATE queue_jobs AS j
    SET worker_id = 0, claimed_at = NULL, attempt = j.attempt - d.uncount,
        losses = CASE WHEN d.outcome IN ('released', 'undecodable') THEN j.losses ELSE 0 END,
        run_at = coalesce(now() + d.delay_us * interval '1 microsecond', j.run_at)
    FROM batch AS d
    WHERE j.id = ANY (ARRAY(SELECT id FROM held WHERE NOT cancelled)) AND d.id = j.id AND d.fence = j.fence
), recorded AS (
    INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT h.id, h.fence, h.attempt, $1, now() - d.ran_us * interval '1 microsecond', now(), d.outcome, d.error
    FROM held AS h JOIN batch AS d USING (id, fence)
    WHERE d.record
    ON CONFLICT DO NOTHING
), forgotten AS (
    DELETE FROM queue_attempts
    WHERE job_id = ANY (ARRAY(SELECT id FROM held JOIN batch USING (id, fence) WHERE forget IS NOT NULL))
      AND fence <= (SELECT forget FROM held AS h JOIN batch AS d USING (id, fence) WHERE h.id = job_id)
      AND outcome IN ('snoozed', 'released')
)
SELECT id FROM held

-- name: bury
-- Moves jobs to the dead letters. The plan stays on the primary key, whatever the statistics say: the ids travel as an
-- array, and "IS TRUE" makes the fence check a hash lookup instead of a join.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($2::json) AS d (id bigint, fence integer, ran_us bigint, outcome text, error text)
), gone AS (
    DELETE FROM queue_jobs AS j
    WHERE j.id = ANY (ARRAY(SELECT id FROM batch)) AND j.worker_id = $1
      AND ((j.id, j.fence) IN (SELECT id, fence FROM batch)) IS TRUE
    RETURNING j.*
), ended AS MATERIALIZED (
    SELECT g.*, d.outcome, d.error, now() - d.ran_us * interval '1 microsecond' AS started_at
    FROM gone AS g JOIN batch AS d USING (id, fence)
), recorded AS (
    INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT id, fence, attempt, worker_id, started_at, now(), outcome, error FROM ended
    ON CONFLICT DO NOTHING
)
INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
                        run_at, started_at, finished_at, error, meta)
SELECT id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at, run_at,
       started_at, now(), error, meta
FROM ended
RETURNING id

-- name: guard
-- Locks the job until the end of a transaction of its handler's: see `complete`.
SELECT id FROM queue_jobs
WHERE id = $1 AND worker_id = $2 AND fence = $3
  AND enqueued_at = timestamptz 'epoch' + $4 * interval '1 microsecond'
FOR UPDATE

-- name: complete
-- Completes one job in a transaction of its handler's. The time is that of this statement: the transaction may have
-- begun long ago. The job's own time of enqueue tells another database apart, which may have the same numbers. Outside
-- a transaction there is no number of one yet, so this finds nothing.
WITH gone AS (
    DELETE FROM queue_jobs
    WHERE id = $1 AND worker_id = $2 AND fence = $3
      AND enqueued_at = timestamptz 'epoch' + $4 * interval '1 microsecond'
      AND txid_current_if_assigned() IS NOT NULL
    RETURNING *
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error, meta)
SELECT id, kind, queue, 'completed', args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
       run_at, statement_timestamp() - $5 * interval '1 microsecond', statement_timestamp(), $6::json, NULL, meta
FROM gone

-- name: still_held
-- Which of these jobs the worker still holds under these fences. Takes no locks.
SELECT held.id
FROM json_to_recordset($2::json) AS d (id bigint, fence integer)
CROSS JOIN LATERAL (
    SELECT j.id FROM queue_jobs AS j
    WHERE j.id = d.id AND j.worker_id = $1 AND j.fence = d.fence LIMIT 1) AS held
