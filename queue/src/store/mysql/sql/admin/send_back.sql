-- Half of dead to ready, with all attempts before it (remove_dead is the other half); the rows are locked. The fence goes on
-- from where it stood: it is the fence.
INSERT INTO queue_jobs (id, kind, queue, args, priority, max_retries, enqueued_at, fence, run_at)
SELECT j.id, kind, queue, args, priority, max_retries, enqueued_at, fence, UTC_TIMESTAMP(6)
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = b.id
