-- step: find
-- The dead letters among these jobs. No lock: the transaction is already the only writer.
SELECT id, features FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: found
-- Sends dead letters back with the full number of attempts. The fence continues, so late writes stay refused.
-- The next step removes them.
INSERT INTO queue_jobs (id, kind, queue, args, priority, features, max_retries, enqueued_at, fence, run_at)
SELECT id, kind, queue, args, priority, features, max_retries, enqueued_at, fence,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))

-- step: found
DELETE FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
