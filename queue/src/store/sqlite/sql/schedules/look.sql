-- The only statement that a worker sends again and again for schedules. One row:
--   due       ids of schedules of these kinds that are due
--   next      microseconds until the next one, within 35 seconds
--   since     when this worker's process joined first (NULL: it is not registered)
--   decides   it is the latest live worker of its application
--   digest    of what the application declares now
--   orphans   ids of schedules of other kinds that have been due for a minute, and have no error yet
-- $1: application, $2: kinds, $3: worker, $4: the most ids, $5: microseconds that a test is ahead of the clock
WITH c (now) AS MATERIALIZED (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $5 / 1000)
SELECT (SELECT json_group_array(d.id) FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at <= (SELECT now FROM c) AND s.kind IN (SELECT value FROM json_each($2))
               ORDER BY s.next_at LIMIT +$4) AS d),
       (SELECT (s.next_at - c.now) * 1000 FROM queue_schedules AS s, c
        WHERE s.next_at > (SELECT now FROM c) AND s.next_at <= (SELECT now FROM c) + 35000
          AND s.kind IN (SELECT value FROM json_each($2))
        ORDER BY s.next_at LIMIT 1),
       (SELECT m.since * 1000 FROM queue_schedulers AS m WHERE m.worker_id = $3),
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS o
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE o.app = $1 AND (o.since, o.worker_id) > (SELECT m.since, m.worker_id FROM queue_schedulers AS m
                                                                  WHERE m.worker_id = $3)),
       (SELECT a.digest FROM queue_apps AS a WHERE a.app = $1),
       (SELECT json_group_array(o.id) FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at < (SELECT now FROM c) - 60000 AND s.changed_at < (SELECT now FROM c) - 60000
                 AND s.kind NOT IN (SELECT value FROM json_each($2))
                 AND s.error IS NULL
               ORDER BY s.next_at LIMIT 100) AS o)
