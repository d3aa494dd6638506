-- What a heartbeat reports, on up to 32 other workers: the next 16 by id and the first 16. So several watch each one.
SELECT (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
        WHERE w.id = $1 AND w.stopped_at IS NULL),
       FALSE,
       (SELECT CAST(JSON_ARRAYAGG(JSON_ARRAY(j.id, j.fence)) AS CHAR)
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
                   COALESCE(TIMESTAMPDIFF(MICROSECOND, next_heartbeat_at, UTC_TIMESTAMP(6)), 0),
                   TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at),
                   TIMESTAMPDIFF(MICROSECOND, heartbeat_at, expires_at))) AS CHAR)
        FROM (SELECT CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_') AS live,
                     CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_') AS busy) AS name
        CROSS JOIN
             ((SELECT near.id, b.heartbeat_at, b.expires_at, b.server_run, b.next_heartbeat_at
               FROM queue_workers AS near FORCE INDEX (queue_workers_alive)
               STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = near.id
               WHERE near.stopped_at IS NULL AND near.id > $1 ORDER BY near.id LIMIT 16)
              UNION ALL
              (SELECT near.id, b.heartbeat_at, b.expires_at, b.server_run, b.next_heartbeat_at
               FROM queue_workers AS near FORCE INDEX (queue_workers_alive)
               STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = near.id
               WHERE near.stopped_at IS NULL AND near.id < $1 ORDER BY near.id LIMIT 16)) AS other)
