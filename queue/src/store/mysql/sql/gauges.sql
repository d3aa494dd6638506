-- Gauges: how much waits, runs and is dead, from bounded reads of the indexes.

-- name: lanes
-- The lanes that have jobs, at most 2,000, and the first due time of each. "Using index for group-by": one probe for
-- each.
SELECT kind, queue, priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(run_at))
FROM queue_jobs FORCE INDEX (queue_jobs_order) GROUP BY kind, queue, priority LIMIT 2000

-- name: waiting
-- The first $2 + 1 jobs of each of these lanes: the lane's place in the list, its first due time, now, how many waiting
-- jobs it has (NULL: more than $2), and how many of them are not due yet. Rows are read only where jobs run (`busy`).
-- (The engines use a list's values only for the columns before the time: with a condition on it, they would read the
-- whole lane.)
SELECT l.ord - 1,
       CASE WHEN l.busy
            THEN (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at)
                  FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
                  WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority
                  ORDER BY j.kind, j.queue, j.priority, j.run_at, j.id LIMIT 1)
            ELSE l.first END,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       CASE WHEN l.next IS NULL
            THEN (SELECT COUNT(*) FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
                  WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority) END,
       CASE WHEN l.next IS NULL
            THEN (SELECT COUNT(*) FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
                  WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority
                    AND j.run_at > UTC_TIMESTAMP(6)) ELSE l.next > UTC_TIMESTAMP(6) END
FROM (SELECT t.*, (SELECT j.run_at FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
                   WHERE j.kind = t.kind AND j.queue = t.queue AND j.priority = t.priority
                   ORDER BY j.kind, j.queue, j.priority, j.run_at, j.id LIMIT 1 OFFSET $2) AS next
      FROM JSON_TABLE($1, '$[*]' COLUMNS (
          ord FOR ORDINALITY, kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
          queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.queue',
          priority SMALLINT PATH '$.priority', first BIGINT PATH '$.first', busy INT PATH '$.busy')) AS t
      LIMIT 10000) AS l

-- name: waiting_in
-- One lane: how many of its jobs are due, and how many are not yet. NULL: $4 or more. Only the index is read, which
-- also has the held jobs. They are due, so they are subtracted.
SELECT CASE WHEN due.jobs < $4 THEN GREATEST(0, due.jobs - held.jobs) END, CASE WHEN later.jobs < $4 THEN later.jobs END
FROM (SELECT COUNT(*) AS jobs
      FROM (SELECT 1 FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
            WHERE j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
            ORDER BY j.run_at LIMIT $4) AS first) AS due
CROSS JOIN (SELECT COUNT(*) AS jobs
            FROM (SELECT 1 FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
                  WHERE j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at > UTC_TIMESTAMP(6)
                  ORDER BY j.run_at LIMIT $4) AS first) AS later
CROSS JOIN (SELECT COUNT(*) AS jobs
            FROM queue_claims AS c
            STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
            STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
            WHERE j.worker_id <> 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3) AS held

-- name: running
-- Running jobs by kind and queue, at most $1 of them. The claim records lead to them.
SELECT kind, queue, COUNT(*)
FROM (SELECT DISTINCT j.id, j.kind, j.queue
      FROM queue_claims AS c
      STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
      STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
      WHERE j.worker_id <> 0 LIMIT $1) AS j
GROUP BY kind, queue

-- name: dead_lanes
-- The kinds and queues that have dead letters, at most 2,000.
SELECT kind, queue, 0, NULL FROM queue_dead FORCE INDEX (queue_dead_lane) GROUP BY kind, queue LIMIT 2000

-- name: dead
-- How many dead letters each of these has: its place in the list, and the number (NULL: more than $2).
SELECT l.ord - 1,
       CASE WHEN (SELECT d.id FROM queue_dead AS d FORCE INDEX (queue_dead_lane)
                  WHERE d.kind = l.kind AND d.queue = l.queue ORDER BY d.kind, d.queue, d.id LIMIT 1 OFFSET $2) IS NULL
            THEN (SELECT COUNT(*) FROM queue_dead AS d FORCE INDEX (queue_dead_lane)
                  WHERE d.kind = l.kind AND d.queue = l.queue) END
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (
          ord FOR ORDINALITY, kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
          queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.queue')) AS t) AS l

-- name: alive
-- The number of live workers.
SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
WHERE w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)

-- name: paused
-- The paused queues, those too that are empty.
SELECT queue, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', paused_at) FROM queue_paused ORDER BY queue
