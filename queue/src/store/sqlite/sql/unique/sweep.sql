-- step: all
-- Removes the keys that these jobs have. They are nowhere any more. A key whose time is not over stays.
DELETE FROM queue_unique_keys WHERE (kind, unique_key, job_id) IN (
    SELECT kind, unique_key, job_id FROM queue_unique_jobs WHERE job_id IN (SELECT value FROM json_each($1)))
  AND (free_at IS NULL OR free_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))

-- step: all
-- What was noted of them, unless their key is still there.
DELETE FROM queue_unique_jobs AS n WHERE n.job_id IN (SELECT value FROM json_each($1)) AND NOT EXISTS (
    SELECT 1 FROM queue_unique_keys AS k
    WHERE k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id)
