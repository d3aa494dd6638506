-- step: all
-- Removes the keys that these jobs have, and then what was noted of them. They are nowhere any more.
DELETE FROM queue_unique_keys AS k USING queue_unique_jobs AS n
WHERE n.job_id = ANY ($1::bigint[]) AND k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id

-- step: all
DELETE FROM queue_unique_jobs WHERE job_id = ANY ($1::bigint[])
