-- The claims of workers that are gone, once nothing of them is left. Rescuers that come at the same time do not
-- wait for each other. "NOT IN" is a hash of the living; arrays and a limit keep all else on the keys, whatever the
-- statistics say.
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
