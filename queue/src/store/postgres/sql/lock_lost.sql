-- Locks the jobs that the lost worker still holds, and decides what becomes of each:
--   dead       its last attempt was lost
--   cancelled  cancellation was requested
--   ready      the attempt counts, and retries are left
--   unstarted  the attempt never began, so it does not count. A job that was lost before or has at most one retry left
--              always has its start recorded first
--   unknown    it is not known whether the attempt began, so it does not count for now
-- If a job is lost while it runs alone, its earlier unknown attempts count as lost, too: these are its doubts.
-- The losses include this one, with two exceptions: the attempt never began, or the worker was well and left by itself
-- (leave.sql).
SELECT j.id,
       CASE WHEN j.started_fence = j.fence AND j.attempt + doubt.attempts > j.max_retries THEN 'dead'
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN j.started_fence = j.fence THEN 'ready'
            WHEN j.losses > 0 OR j.attempt >= j.max_retries THEN 'unstarted'
            ELSE 'unknown' END,
       doubt.attempts,
       j.losses + CASE WHEN w.heartbeat_at = w.stopped_at
                         OR j.started_fence <> j.fence AND (j.losses > 0 OR j.attempt >= j.max_retries)
                       THEN 0 ELSE 1 END,
       'the worker' || coalesce(' (' || w.host || ':' || w.pid || ')', '')
       || CASE WHEN j.started_fence = j.fence THEN ' running this job was lost'
           ELSE ' was lost before it was known to have started this job' END
       || coalesce(' (no heartbeat since ' || to_char(w.heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
           || ' UTC)', '')
       || CASE WHEN j.started_fence <> j.fence OR j.max_neighbours IS NULL THEN ''
               WHEN j.max_neighbours = 0 THEN '; no other job ran beside it'
               ELSE '; it ran beside at most ' || j.max_neighbours || ' others' END
FROM queue_jobs AS j
LEFT JOIN queue_workers AS w ON w.id = j.worker_id
CROSS JOIN LATERAL (
    SELECT count(*) AS attempts FROM queue_attempts AS a
    WHERE a.job_id = j.id AND a.outcome = 'unstarted' AND j.started_fence = j.fence AND j.max_neighbours = 0) AS doubt
WHERE j.id = ANY (ARRAY(SELECT d.id FROM json_to_recordset($1::json) AS d (id bigint)))
  AND (j.id, j.worker_id) IN (SELECT d.id, d.worker_id
      FROM json_to_recordset($1::json) AS d (id bigint, worker_id bigint))
  AND NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = j.worker_id AND w.stopped_at IS NULL)
ORDER BY j.id
FOR UPDATE OF j SKIP LOCKED
