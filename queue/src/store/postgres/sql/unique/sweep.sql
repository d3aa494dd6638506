-- step: find
-- Locks the keys that these jobs have. They are nowhere any more. A key whose time is not over stays. What others lock
-- is left for the next time: a sweep waits for nobody.
SELECT n.job_id FROM queue_unique_jobs AS n
JOIN queue_unique_keys AS k ON k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id
WHERE n.job_id = ANY ($1::bigint[]) AND (k.free_at IS NULL OR k.free_at <= now())
FOR UPDATE OF k SKIP LOCKED

-- step: found
DELETE FROM queue_unique_keys AS k USING queue_unique_jobs AS n
WHERE n.job_id = ANY ($1::bigint[]) AND k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id

-- step: all
-- What was noted of them, unless their key is still there.
DELETE FROM queue_unique_jobs AS n
WHERE n.job_id = ANY ($1::bigint[]) AND NOT EXISTS (
    SELECT FROM queue_unique_keys AS k
    WHERE k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id)
