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
-- (MySQL rejects FOR UPDATE with a table function that is not wrapped. Rows read by a subquery are not locked.)
SELECT j.id,
       CASE WHEN j.started_fence = j.fence AND j.attempt + IF(j.max_neighbours = 0, (
                SELECT COUNT(*) FROM queue_attempts AS a FORCE INDEX (PRIMARY)
                WHERE a.job_id = j.id AND a.outcome = 'unstarted'), 0) > j.max_retries THEN 'dead'
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN j.started_fence = j.fence THEN 'ready'
            WHEN j.losses > 0 OR j.attempt >= j.max_retries THEN 'unstarted'
            ELSE 'unknown' END,
       IF(j.started_fence = j.fence AND j.max_neighbours = 0, (
           SELECT COUNT(*) FROM queue_attempts AS a FORCE INDEX (PRIMARY)
           WHERE a.job_id = j.id AND a.outcome = 'unstarted'), 0),
       j.losses + IF(j.started_fence <> j.fence AND (j.losses > 0 OR j.attempt >= j.max_retries) OR (
           SELECT COUNT(*) FROM queue_workers AS w FORCE INDEX (PRIMARY)
           WHERE w.id = j.worker_id AND w.heartbeat_at = w.stopped_at) > 0, 0, 1),
       CONCAT('the worker',
              COALESCE((SELECT CONCAT(' (', w.host, ':', w.pid, ')')
                        FROM queue_workers AS w FORCE INDEX (PRIMARY) WHERE w.id = j.worker_id), ''),
              IF(j.started_fence = j.fence, ' running this job was lost',
                  ' was lost before it was known to have started this job'),
              COALESCE((SELECT CONCAT(' (no heartbeat since ', DATE_FORMAT(w.heartbeat_at, '%Y-%m-%d %H:%i:%s'),
                  ' UTC)')
                        FROM queue_workers AS w FORCE INDEX (PRIMARY) WHERE w.id = j.worker_id), ''),
              CASE WHEN j.started_fence <> j.fence OR j.max_neighbours IS NULL THEN ''
                   WHEN j.max_neighbours = 0 THEN '; no other job ran beside it'
                   ELSE CONCAT('; it ran beside at most ', j.max_neighbours, ' others') END)
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', worker_id BIGINT PATH '$.worker_id')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = d.worker_id
FOR UPDATE SKIP LOCKED
