-- The rows are locked. $1: `{id, fate}`.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS d (id bigint, fate text)
), lost AS MATERIALIZED (
    SELECT j.*, d.fate,
           'the worker' || coalesce(' (' || w.host || ':' || w.pid || ')', '') || ' running this job was lost'
           || coalesce(' (no heartbeat since ' || to_char(w.heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC)', '')
               AS error
    FROM queue_jobs AS j
    JOIN batch AS d USING (id)
    LEFT JOIN queue_workers AS w ON w.id = j.worker_id
    WHERE j.id = ANY (ARRAY(SELECT id FROM batch))
), recorded AS (
    INSERT INTO queue_attempts (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT id, lease, attempt, worker_id, coalesce(claimed_at, now()), now(), 'lost', error FROM lost
    ON CONFLICT DO NOTHING
), history AS (
    INSERT INTO queue_history (id, kind, queue, state, args, priority, max_retries, attempt, lease, worker_id,
                               enqueued_at, run_at, started_at, finished_at, error)
    SELECT id, kind, queue, 'cancelled', args, priority, max_retries, attempt, lease, worker_id,
           enqueued_at, run_at, claimed_at, now(), 'cancelled on request; ' || error
    FROM lost WHERE fate = 'cancelled'
), dead AS (
    INSERT INTO queue_dead (id, kind, queue, args, priority, max_retries, attempt, lease, worker_id, enqueued_at, run_at,
                            started_at, finished_at, error)
    SELECT id, kind, queue, args, priority, max_retries, attempt, lease, worker_id, enqueued_at, run_at,
           claimed_at, now(), error
    FROM lost WHERE fate = 'dead'
), gone AS (
    DELETE FROM queue_jobs WHERE id = ANY (ARRAY(SELECT id FROM batch WHERE fate <> 'ready'))
)
UPDATE queue_jobs SET worker_id = 0, claimed_at = NULL WHERE id = ANY (ARRAY(SELECT id FROM batch WHERE fate = 'ready'))
