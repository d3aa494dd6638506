-- The views act with the rights of whoever reads them. So they work after the account that made them is gone.
-- All jobs in one shape, for people. Its columns are stable.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW queue_all AS
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state,
       priority, attempt, max_retries, enqueued_at, run_at,
       IF(worker_id <> 0, claimed_at, NULL) AS started_at, CAST(NULL AS datetime(6)) AS finished_at,
       NULLIF(worker_id, 0) AS worker_id, args, NULL AS result,
       CASE WHEN fence > 0 THEN
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1) END AS error,
       COALESCE(worker_id = 0 AND fence > 0
       AND (SELECT a.outcome FROM queue_attempts AS a
            WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
            ORDER BY a.fence DESC LIMIT 1)
           IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost'), 0) AS retrying
FROM queue_jobs AS j
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       NULLIF(worker_id, 0), args, result, error, 0
FROM queue_history
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       NULLIF(worker_id, 0), args, NULL, error, 0
FROM queue_dead;

-- Job counts by kind, queue and state. oldest: due time of waiting, start of running, end of finished jobs.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW queue_stats AS
SELECT kind, queue, state, COUNT(*) AS jobs,
       MIN(CASE WHEN state = 'running' THEN started_at
                WHEN finished_at IS NULL THEN run_at ELSE finished_at END) AS oldest,
       COUNT(CASE WHEN retrying THEN 1 END) AS retrying
FROM queue_all GROUP BY kind, queue, state;
