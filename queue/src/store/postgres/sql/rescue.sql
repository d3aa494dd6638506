-- Rescues locked jobs. $1: the answer of lock_lost.sql. From its second loss on, a job waits for a random time, so that
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
                               enqueued_at, run_at, started_at, finished_at, error)
    SELECT id, kind, queue, 'cancelled', args, priority, features, max_retries, attempt + doubts, fence, worker_id,
           enqueued_at, run_at, claimed_at, now(), 'cancelled on request; ' || error
    FROM lost WHERE fate = 'cancelled'
), dead AS (
    INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id,
                            enqueued_at, run_at, started_at, finished_at, error)
    SELECT id, kind, queue, args, priority, features, max_retries, attempt + doubts, fence, worker_id, enqueued_at,
           run_at, claimed_at, now(), error
    FROM lost WHERE fate = 'dead'
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
