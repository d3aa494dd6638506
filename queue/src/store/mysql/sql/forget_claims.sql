-- step: find
-- Locks claim records without held jobs, of lost or stopped workers. Concurrent rescues skip each other's.
SELECT free.id
FROM (
    SELECT c.id
    FROM queue_claims AS c
    STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
    LEFT JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id AND j.worker_id = c.worker_id
    WHERE (SELECT COUNT(*) FROM queue_workers AS w FORCE INDEX (PRIMARY)
       WHERE w.id = c.worker_id AND w.stopped_at IS NULL) = 0
    GROUP BY c.id
    HAVING COUNT(j.id) = 0
) AS nothing
STRAIGHT_JOIN queue_claims AS free FORCE INDEX (PRIMARY) ON free.id = nothing.id
FOR UPDATE SKIP LOCKED

-- step: found
DELETE c FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = d.id
