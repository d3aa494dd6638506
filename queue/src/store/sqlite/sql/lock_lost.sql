-- The jobs that the lost worker still holds, and what becomes of each:
--   dead       its last attempt was lost
--   cancelled  cancellation was requested
--   ready      the attempt counts, and retries are left
--   unstarted  the attempt never began, so it does not count. A job that was lost before or has at most one retry left
--              always has its start recorded first
--   unknown    it is not known whether the attempt began, so it does not count for now
-- If a job is lost while it runs alone, its earlier unknown attempts count as lost, too: these are its doubts.
-- The losses include this one, with two exceptions: the attempt never began, or the worker was well and left by itself
-- (leave.sql).
SELECT id,
       CASE WHEN began AND attempt + doubts > max_retries THEN 'dead'
            WHEN cancelling THEN 'cancelled'
            WHEN began THEN 'ready'
            WHEN losses > 0 OR attempt >= max_retries THEN 'unstarted'
            ELSE 'unknown' END,
       doubts,
       losses + iif(heartbeat_at = stopped_at OR NOT began AND (losses > 0 OR attempt >= max_retries), 0, 1),
       'the worker' || coalesce(' (' || host || ':' || pid || ')', '')
       || iif(began, ' running this job was lost', ' was lost before it was known to have started this job')
       || coalesce(' (no heartbeat since ' || strftime('%Y-%m-%d %H:%M:%S', heartbeat_at / 1000, 'unixepoch')
           || ' UTC)', '')
       || CASE WHEN NOT began OR max_neighbours IS NULL THEN ''
               WHEN max_neighbours = 0 THEN '; no other job ran beside it'
               ELSE '; it ran beside at most ' || max_neighbours || ' others' END
FROM (
    SELECT j.id, j.attempt, j.max_retries, j.losses, j.max_neighbours, j.started_fence = j.fence AS began,
           j.cancel_requested_at IS NOT NULL AS cancelling, w.host, w.pid, w.heartbeat_at, w.stopped_at,
           iif(j.started_fence = j.fence AND j.max_neighbours = 0,
               (SELECT count(*) FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome = 'unstarted'), 0)
                   AS doubts
    FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
    LEFT JOIN queue_workers AS w ON w.id = j.worker_id
    WHERE j.worker_id = d.value ->> 'worker_id' AND (w.id IS NULL OR w.stopped_at IS NOT NULL)
)
