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
