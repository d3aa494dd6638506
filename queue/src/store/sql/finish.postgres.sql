-- One statement. What keeps the plan on the primary key whatever the statistics say: the ids travel as an array, and "IS
-- TRUE" makes the fence a hash lookup instead of a join.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($2::json)
        AS d (id bigint, lease integer, ran_us bigint, state text, result text, error text)
), gone AS (
    DELETE FROM queue_jobs AS j
    WHERE j.id = ANY (ARRAY(SELECT id FROM batch)) AND j.worker_id = $1
      AND ((j.id, j.lease) IN (SELECT id, lease FROM batch)) IS TRUE
    RETURNING j.*
), ended AS MATERIALIZED (
    SELECT g.*, d.state, d.result, d.error, now() - d.ran_us * interval '1 microsecond' AS started_at
    FROM gone AS g JOIN batch AS d USING (id)
), recorded AS (
    INSERT INTO queue_attempts (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT id, lease, attempt, worker_id, started_at, now(), state, error FROM ended WHERE state = 'cancelled'
    ON CONFLICT DO NOTHING
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, max_retries, attempt, lease, worker_id, enqueued_at,
                           run_at, started_at, finished_at, result, error)
SELECT id, kind, queue, state, args, priority, max_retries, attempt, lease, worker_id, enqueued_at,
       run_at, started_at, now(), result::json, error
FROM ended
RETURNING id
