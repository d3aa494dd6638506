-- Half of dead to ready, with all attempts before it: remove_dead is the other half. The fence goes on from where it stood:
-- it is the fence.
INSERT INTO queue_jobs (id, kind, queue, args, priority, max_retries, enqueued_at, fence, run_at)
SELECT id, kind, queue, args, priority, max_retries, enqueued_at, fence,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
