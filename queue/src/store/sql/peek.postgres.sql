-- Of the next $2 jobs in order, how many are in each of the lanes asked, and the last one's place. No lock.
SELECT next.ask, count(*), CASE WHEN bool_or(next.newest) THEN min(next.run_at) ELSE max(next.run_at) END
FROM (
    SELECT a.ask, a.newest, j.id, j.run_at
    FROM json_to_recordset($1::json) AS a (
        ask integer, kind text, queue text, priority smallint, after_us bigint, after_id bigint, newest boolean)
    CROSS JOIN LATERAL (
        (SELECT j.id, j.run_at, extract(epoch FROM j.run_at) AS place FROM queue_jobs AS j
         WHERE NOT a.newest AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue AND j.priority = a.priority
           AND j.run_at <= now()
           AND (j.run_at, j.id) > (timestamptz 'epoch' + a.after_us * interval '1 microsecond', a.after_id)
         ORDER BY j.run_at, j.id LIMIT $2)
        UNION ALL
        (SELECT j.id, j.run_at, -extract(epoch FROM j.run_at) FROM queue_jobs AS j
         WHERE a.newest AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue AND j.priority = a.priority
           AND j.run_at <= now()
         ORDER BY j.run_at DESC, j.id DESC LIMIT $2)
    ) AS j
    ORDER BY a.priority, j.place, j.id
    LIMIT $2
) AS next
GROUP BY next.ask
