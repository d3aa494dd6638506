-- Queues with waiting or running jobs, and paused queues.
SELECT queue, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(paused_at)),
       CAST(SUM(scheduled) AS SIGNED), CAST(SUM(ready) AS SIGNED), CAST(SUM(running) AS SIGNED),
       CAST(SUM(retrying) AS SIGNED)
FROM (SELECT queue, CAST(NULL AS DATETIME(6)) AS paused_at,
             COUNT(CASE WHEN worker_id = 0 AND run_at > UTC_TIMESTAMP(6) THEN 1 END) AS scheduled,
             COUNT(CASE WHEN worker_id = 0 AND run_at <= UTC_TIMESTAMP(6) THEN 1 END) AS ready,
             COUNT(CASE WHEN worker_id <> 0 THEN 1 END) AS running,
             COUNT(CASE WHEN worker_id = 0 AND fence > 0
                 AND (SELECT a.outcome FROM queue_attempts AS a
                      WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                      ORDER BY a.fence DESC LIMIT 1)
                     IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost')
                 THEN 1 END)
                 AS retrying
      FROM queue_jobs AS j GROUP BY queue
      UNION ALL
      SELECT queue, paused_at, 0, 0, 0, 0 FROM queue_paused) AS q
GROUP BY queue
