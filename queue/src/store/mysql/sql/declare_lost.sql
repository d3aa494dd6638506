-- step: find
-- Locks the heartbeat of a worker whose lease has run out ($3 = 1) or whose liveness lock is free. A free lock counts
-- only in the server run in which it was held (session_run.sql). Waits for a heartbeat that is being written.
SELECT worker_id FROM queue_heartbeats
WHERE worker_id = $1 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) = $2
  AND (SELECT COUNT(*) FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL) = 1
  AND IF($3 = 1, expires_at < UTC_TIMESTAMP(6),
      server_run = (
          SELECT (TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6)) - CAST(variable_value AS SIGNED)) * 1000000
              + @@server_id % 1000000
          FROM /*M! information_schema.global_status */ /*!80000 performance_schema.global_status */
          WHERE variable_name = 'Uptime')
      AND IS_FREE_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32),
          '_', $1)) = 1)
FOR UPDATE

-- step: found
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = d.id
STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = d.id
SET w.stopped_at = UTC_TIMESTAMP(6), w.heartbeat_at = b.heartbeat_at

-- step: found
DELETE b FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = d.id
