-- Identifies the server run by start time in seconds and server id. No row in the first second, in which an earlier run
-- may have ended. The engines keep the table in different schemas, and each takes the other's for a comment.
SELECT (TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6)) - CAST(variable_value AS SIGNED)) * 1000000
    + @@server_id % 1000000
FROM /*M! information_schema.global_status */ /*!80000 performance_schema.global_status */
WHERE variable_name = 'Uptime' AND CAST(variable_value AS SIGNED) > 0
