-- Queues with waiting or running jobs, and paused queues.
SELECT queue, max(paused_at) * 1000,
       sum(scheduled), sum(ready), sum(running), sum(retrying)
FROM (SELECT queue, NULL AS paused_at,
             count(CASE WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 1 END)
                 AS scheduled,
             count(CASE WHEN run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 1 END) AS ready,
             0 AS running,
             count(CASE WHEN fence > 0
                 AND (SELECT a.outcome FROM queue_attempts AS a
                      WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
                      ORDER BY a.fence DESC LIMIT 1)
                     IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN 1 END)
                 AS retrying
      FROM queue_jobs AS j WHERE worker_id = 0 GROUP BY queue
      UNION ALL
      SELECT queue, NULL, 0, 0, count(*), 0
      FROM queue_jobs WHERE worker_id <> 0 GROUP BY queue
      UNION ALL
      SELECT queue, paused_at, 0, 0, 0, 0 FROM queue_paused) AS q
GROUP BY queue
