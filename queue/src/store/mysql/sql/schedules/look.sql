-- The only statement that a worker sends again and again for schedules. One row:
--   due       ids of schedules of these kinds that are due
--   next      microseconds until the next one, within 35 seconds
--   since     when this worker's process joined first (NULL: it is not registered)
--   decides   it is the latest live worker of its application
--   digest    of what the application declares now
--   orphans   ids of schedules of other kinds that have been due for a minute, and have no error yet
-- $1: application, $2: kinds, $3: worker, $4: the most ids, $5: microseconds that a test is ahead of the clock
SELECT (SELECT JSON_ARRAYAGG(d.id) FROM (SELECT s.id FROM queue_schedules AS s FORCE INDEX (queue_schedules_next)
               WHERE s.next_at <= UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND
                 AND JSON_CONTAINS($2, JSON_QUOTE(s.kind))
               ORDER BY s.next_at LIMIT $4) AS d),
       (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND, s.next_at)
        FROM queue_schedules AS s FORCE INDEX (queue_schedules_next)
        WHERE s.next_at > UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND
          AND s.next_at <= UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND + INTERVAL 35 SECOND
          AND JSON_CONTAINS($2, JSON_QUOTE(s.kind))
        ORDER BY s.next_at LIMIT 1),
       (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', m.since) FROM queue_schedulers AS m WHERE m.worker_id = $3),
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS m
                   JOIN queue_schedulers AS o ON o.app = m.app
                       AND (o.since > m.since OR (o.since = m.since AND o.worker_id > m.worker_id))
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE m.worker_id = $3),
       (SELECT a.digest FROM queue_apps AS a WHERE a.app = $1),
       (SELECT JSON_ARRAYAGG(o.id) FROM (SELECT s.id FROM queue_schedules AS s FORCE INDEX (queue_schedules_next)
               WHERE s.next_at < UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND - INTERVAL 60 SECOND
                 AND s.changed_at < UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND - INTERVAL 60 SECOND
                 AND NOT JSON_CONTAINS($2, JSON_QUOTE(s.kind))
                 AND s.error IS NULL
               ORDER BY s.next_at LIMIT 100) AS o)
