-- step: all
-- Removes the keys that these jobs have, and then what was noted of them. They are nowhere any more.
DELETE FROM queue_unique_keys WHERE (kind, unique_key, job_id) IN (
    SELECT kind, unique_key, job_id FROM queue_unique_jobs WHERE job_id IN (SELECT value FROM json_each($1)))

-- step: all
DELETE FROM queue_unique_jobs WHERE job_id IN (SELECT value FROM json_each($1))
