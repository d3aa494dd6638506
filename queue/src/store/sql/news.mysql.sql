-- Of the other workers it looks at the next 16 by number, and at the first 16, so that each is seen by several.
SELECT EXISTS (SELECT 1 FROM queue_workers WHERE id = $1 AND stopped_at IS NULL),
       (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), MIN(expires_at))
        FROM queue_workers WHERE stopped_at IS NULL AND id <> $1),
       FALSE,
       (SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(j.id, j.lease)) AS CHAR)
        FROM JSON_TABLE($4, '$[*]' COLUMNS (id BIGINT PATH '$')) AS running
        STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = running.id
        WHERE j.worker_id = $1 AND j.cancel_requested_at IS NOT NULL),
       CONNECTION_ID(),
       (SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(
                   id,
                   IF(IS_USED_LOCK(CONCAT(name.live, id)) IS NULL, 0, 1),
                   IF(IS_USED_LOCK(CONCAT(name.busy, id)) IS NULL, 0, 1),
                   TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at),
                   server_run,
                   COALESCE(TIMESTAMPDIFF(MICROSECOND, next_heartbeat_at, UTC_TIMESTAMP(6)), 0))) AS CHAR)
        FROM (SELECT CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_') AS live,
                     CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_') AS busy) AS name
        CROSS JOIN
             ((SELECT id, heartbeat_at, server_run, next_heartbeat_at FROM queue_workers FORCE INDEX (queue_workers_alive)
               WHERE stopped_at IS NULL AND expires_at > UTC_TIMESTAMP(6) AND id > $1 ORDER BY id LIMIT 16)
              UNION ALL
              (SELECT id, heartbeat_at, server_run, next_heartbeat_at FROM queue_workers FORCE INDEX (queue_workers_alive)
               WHERE stopped_at IS NULL AND expires_at > UTC_TIMESTAMP(6) AND id < $1 ORDER BY id LIMIT 16)) AS other)
