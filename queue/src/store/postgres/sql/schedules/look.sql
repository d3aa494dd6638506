-- The only statement that a worker sends again and again for schedules. One row:
--   due       ids of schedules of these kinds that are due
--   next      microseconds until the next one, within 35 seconds
--   since     when this worker's process joined first (NULL: it is not registered)
--   decides   it is the latest live worker of its application
--   digest    of what the application declares now
--   orphans   ids of schedules of other kinds that have been due for a minute, and have no error yet
-- $1: application, $2: kinds, $3: worker, $4: the most ids, $5: microseconds that a test is ahead of the clock
SELECT (SELECT json_agg(d.id)::text FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at <= c.now AND s.kind = ANY (c.kinds) ORDER BY s.next_at LIMIT $4) AS d),
       (SELECT (extract(epoch FROM s.next_at - c.now) * 1000000)::bigint FROM queue_schedules AS s
        WHERE s.next_at > c.now AND s.next_at <= c.now + interval '35 s' AND s.kind = ANY (c.kinds)
        ORDER BY s.next_at LIMIT 1),
       (SELECT m.since FROM queue_schedulers AS m WHERE m.worker_id = $3),
       (NOT EXISTS (SELECT FROM queue_schedulers AS o
                    JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                    WHERE o.app = $1 AND (o.since, o.worker_id) >
                          (SELECT m.since, m.worker_id FROM queue_schedulers AS m WHERE m.worker_id = $3)))::int,
       (SELECT a.digest FROM queue_apps AS a WHERE a.app = $1),
       (SELECT json_agg(o.id)::text FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at < c.now - interval '60 s' AND s.changed_at < c.now - interval '60 s'
                 AND s.kind <> ALL (c.kinds) AND s.error IS NULL ORDER BY s.next_at LIMIT 100) AS o)
FROM (SELECT now() + $5 * interval '1 microsecond' AS now,
             ARRAY(SELECT k FROM json_array_elements_text($2::json) AS k) AS kinds) AS c
