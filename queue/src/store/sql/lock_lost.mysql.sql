-- Locks those that are still held by the lost worker, and says what becomes of each. (MySQL refuses to lock
-- beside a table function that is not wrapped.)
SELECT j.id, CASE WHEN j.attempt > j.max_retries THEN 'dead' WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
                  ELSE 'ready' END
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', worker_id BIGINT PATH '$.worker_id')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = d.worker_id
FOR UPDATE SKIP LOCKED
