-- Waits for whoever has the row locked: its own worker's heartbeat, or the look of a rescue at all rows, which is no reason
-- to pass it over. That its lock is free says something in the run of the server alone in which it was held (session_run.mysql.sql).
SELECT id FROM queue_workers
WHERE id = $1 AND stopped_at IS NULL AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) = $2
  AND server_run = (
      SELECT (TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6)) - CAST(variable_value AS SIGNED)) * 1000000 + @@server_id % 1000000
      FROM /*M! information_schema.global_status */ /*!80000 performance_schema.global_status */
      WHERE variable_name = 'Uptime')
  AND IS_FREE_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_', $1)) = 1
FOR UPDATE
