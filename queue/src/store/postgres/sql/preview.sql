-- A preview: how the next $2 jobs in order spread over the lanes. For each lane: the number of jobs that are among the
-- first $3 or before priority $4 and place ($5, $6); the number before that place; the number of all; the first and
-- last time; the lowest and highest id. Jobs from priority $7 and place ($8, $9) on are not read. (Jobs due exactly at
-- $8 have a branch of their own: PostgreSQL uses only the time of a row comparison to bound the scan.) No locks.
SELECT ask, count(*) FILTER (WHERE number <= $3 OR is_sure), count(*) FILTER (WHERE is_sure),
       count(*), (min(place) * 1000000)::bigint, (max(place) * 1000000)::bigint, min(id), max(id)
FROM (
    SELECT due.ask, due.place, due.id, row_number() OVER (ORDER BY priority, place, id) AS number,
           (priority, place, id) < ($4, $5 / 1000000::numeric, $6) AS is_sure
    FROM (
        SELECT a.ask, a.priority, j.place, j.id
        FROM json_to_recordset($1::json) AS a (
            ask integer, kind text, queue text, priority smallint, after_us bigint, after_id bigint, newest boolean)
        CROSS JOIN LATERAL (
            (SELECT j.id, extract(epoch FROM j.run_at) AS place FROM queue_jobs AS j
             WHERE NOT a.newest AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue
               AND j.priority = a.priority AND j.run_at <= now()
               AND j.run_at < CASE WHEN a.priority < $7 THEN timestamptz 'infinity'
                                   WHEN a.priority = $7 THEN timestamptz 'epoch' + $8 * interval '1 microsecond'
                                   ELSE timestamptz '-infinity' END
               AND (j.run_at, +j.id) > (timestamptz 'epoch' + a.after_us * interval '1 microsecond', a.after_id)
             ORDER BY j.run_at, +j.id LIMIT $2)
            UNION ALL
            (SELECT j.id, extract(epoch FROM j.run_at) FROM queue_jobs AS j
             WHERE NOT a.newest AND a.priority = $7 AND $9 > -9223372036854775808 AND a.after_us <= $8
               AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue AND j.priority = a.priority
               AND j.run_at = timestamptz 'epoch' + $8 * interval '1 microsecond' AND j.run_at <= now()
               AND +j.id > CASE WHEN a.after_us = $8 THEN a.after_id ELSE -9223372036854775808 END AND +j.id < $9
             ORDER BY +j.id LIMIT $2)
            UNION ALL
            (SELECT -1 - j.id, -extract(epoch FROM j.run_at) FROM queue_jobs AS j
             WHERE a.newest AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue
               AND j.priority = a.priority AND j.run_at <= now()
             ORDER BY j.run_at DESC, +j.id DESC LIMIT $2)
        ) AS j
        WHERE NOT EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = a.queue)
        ORDER BY a.priority, j.place, j.id
        LIMIT $2
    ) AS due
) AS next
GROUP BY ask
