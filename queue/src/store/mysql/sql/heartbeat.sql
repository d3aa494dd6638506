-- step: claims
-- Deletes the claim records that the worker reports as settled, but only in the session that answered its last
-- heartbeat: a server that has failed may have lost commits that it had acknowledged.
DELETE c
FROM JSON_TABLE($5, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = d.id
WHERE c.worker_id = $1 AND CONNECTION_ID() = $7

-- step: claims
-- Deletes all claim records without held jobs, in a new session or when the worker asks for it ($6 = 1).
DELETE c
FROM (
    SELECT told.id
    FROM queue_claims AS told FORCE INDEX (queue_claims_worker)
    STRAIGHT_JOIN JSON_TABLE(told.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
    LEFT JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id AND j.worker_id = $1
    WHERE told.worker_id = $1 AND ($6 = 1 OR CONNECTION_ID() <> $7)
    GROUP BY told.id
    HAVING COUNT(j.id) = 0
) AS nothing
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = nothing.id

-- step: all
UPDATE queue_heartbeats SET heartbeat_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND,
                            server_run = $8, next_heartbeat_at = UTC_TIMESTAMP(6) + INTERVAL $9 MICROSECOND
WHERE worker_id = $1 AND (SELECT COUNT(*) FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL) = 1

-- step: all
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
        FROM (SELECT CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_')
            AS live,
                     CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_')
                         AS busy) AS name
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
