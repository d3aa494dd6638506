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
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
       run_at, began, now(), result::json, error
FROM ended
RETURNING id
