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
                        run_at, started_at, finished_at, error)
SELECT id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at, run_at,
       started_at, now(), error
FROM ended
RETURNING id
