-- Also forgets the claims of workers that are gone, once nothing of them is left. Rescuers that come at the same time do not
-- wait for each other.
WITH left_behind AS MATERIALIZED (
    -- first these, so that the jobs of the living are not looked up
    SELECT worker_id, id, job_ids FROM queue_claims AS c
    WHERE NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = c.worker_id AND w.stopped_at IS NULL)
    FOR UPDATE SKIP LOCKED
), settled AS (
    DELETE FROM queue_claims
    WHERE (worker_id, id) IN (
        SELECT c.worker_id, c.id FROM left_behind AS c
        WHERE NOT EXISTS (SELECT FROM queue_jobs AS j WHERE j.id = ANY (c.job_ids) AND j.worker_id = c.worker_id))
)
UPDATE queue_workers SET stopped_at = now()
WHERE id = ANY (ARRAY(
    SELECT id FROM queue_workers WHERE stopped_at IS NULL AND expires_at < now() ORDER BY id FOR UPDATE SKIP LOCKED))
