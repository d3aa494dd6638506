-- Queues with waiting or running jobs, and paused queues.
SELECT queue, max(paused_at),
       sum(scheduled)::bigint, sum(ready)::bigint, sum(running)::bigint, sum(retrying)::bigint
FROM (SELECT queue, NULL::timestamptz AS paused_at,
             count(*) FILTER (WHERE worker_id = 0 AND run_at > now()) AS scheduled,
             count(*) FILTER (WHERE worker_id = 0 AND run_at <= now()) AS ready,
             count(*) FILTER (WHERE worker_id <> 0) AS running,
             count(*) FILTER (WHERE worker_id = 0 AND fence > 0
                 AND (SELECT a.outcome FROM queue_attempts AS a
                      WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                      ORDER BY a.fence DESC LIMIT 1)
                     IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost'))
                 AS retrying
      FROM queue_jobs AS j GROUP BY queue
      UNION ALL
      SELECT queue, paused_at, 0, 0, 0, 0 FROM queue_paused) AS q
GROUP BY queue
