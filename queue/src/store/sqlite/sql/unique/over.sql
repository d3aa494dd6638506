-- Which jobs are nowhere any more. $1: the last job of the round before; $2: how many to look at.
SELECT n.job_id,
       NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_unique_keys AS k WHERE k.kind = n.kind AND k.unique_key = n.unique_key
           AND k.job_id = n.job_id AND k.free_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
FROM (SELECT * FROM queue_unique_jobs WHERE job_id > $1 ORDER BY job_id LIMIT +$2) AS n
ORDER BY n.job_id
