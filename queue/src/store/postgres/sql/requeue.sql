-- Returns jobs to the queue. A job whose cancellation was requested meanwhile ends as cancelled instead. Of the
-- attempts of a job that do not count (snoozed, released), keeps only the last 100 to 200. For "IS TRUE" see bury.sql.
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
                               enqueued_at, run_at, started_at, finished_at, error)
    SELECT g.id, g.kind, g.queue, 'cancelled', g.args, g.priority, g.features, g.max_retries, g.attempt - d.uncount,
           g.fence, g.worker_id, g.enqueued_at, g.run_at,
           CASE WHEN d.record THEN now() - d.ran_us * interval '1 microsecond' END, now(), 'cancelled on request'
    FROM gone AS g JOIN batch AS d USING (id, fence)
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
