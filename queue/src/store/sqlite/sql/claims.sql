-- How a worker finds jobs and takes them.

-- name: discover
-- A skip scan of the claim index: one probe per lane. It starts from the served kinds, so it never visits other kinds.
-- It begins behind the lane given for each kind, advances all kinds one lane at a time, and ends after $2 lanes. The
-- probes are scalar subqueries that return ids, because there is no LATERAL. Each has two parts: (queue, priority) >
-- (..., ...) would walk the whole lane.
WITH RECURSIVE head (id) AS (
    SELECT coalesce(
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = json_extract(served.value, '$.kind')
           AND j.queue = json_extract(served.value, '$.queue') AND j.priority > json_extract(served.value, '$.priority')
         ORDER BY j.priority, j.run_at, j.id LIMIT 1),
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = json_extract(served.value, '$.kind')
           AND j.queue > json_extract(served.value, '$.queue')
         ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT 1))
    FROM json_each($1) AS served
    UNION ALL
    SELECT coalesce(
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue = l.queue AND j.priority > l.priority
         ORDER BY j.priority, j.run_at, j.id LIMIT 1),
        (SELECT j.id FROM queue_jobs AS j INDEXED BY queue_jobs_waiting
         WHERE j.worker_id = 0 AND j.kind = l.kind AND j.queue > l.queue
         ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT 1))
    FROM head CROSS JOIN queue_jobs AS l ON l.id = head.id
    LIMIT +$2
)
SELECT l.kind, l.queue, l.priority, l.run_at * 1000,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000, l.id,
       EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = l.queue)
FROM head CROSS JOIN queue_jobs AS l ON l.id = head.id

-- name: preview
-- The places of the next due rows of one ask. No locks. (A single upper bound: with two, SQLite would read up to the
-- first and only filter by the second.)
SELECT priority, run_at * 1000 AS place, id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= min(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), $7 / 1000 - 1)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
  AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
ORDER BY run_at, id
LIMIT +$6

-- name: preview_many
-- As `preview_many` of MySQL. (With a bare variable as the limit, SQLite would prepare the statement anew each
-- time.)
SELECT ask,
       COUNT(CASE WHEN number <= $2 OR priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5)))
           THEN 1 END),
       COUNT(CASE WHEN priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5))) THEN 1 END),
       COUNT(*), MIN(place), MAX(place), MIN(id), MAX(id)
FROM (
    SELECT ask, priority, place, id, ROW_NUMBER() OVER (ORDER BY priority, place, id) AS number
    FROM (/* lanes */ ORDER BY priority, place, id LIMIT +$1) AS due
) AS next
GROUP BY ask

-- name: preview_to_id
-- As `preview`, and of the rows due exactly at the end time those below an id. (They have a branch of their own: for
-- a pair of time and id, SQLite takes only the time from the index.)
SELECT priority, run_at * 1000 AS place, id
FROM (
    SELECT * FROM (
        SELECT priority, run_at, id
        FROM queue_jobs INDEXED BY queue_jobs_waiting
        WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
          AND run_at <= min(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), $7 / 1000 - 1)
          AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
        ORDER BY run_at, id
        LIMIT +$6)
    UNION ALL
    SELECT * FROM (
        SELECT priority, run_at, id
        FROM queue_jobs INDEXED BY queue_jobs_waiting
        WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3 AND run_at = $7 / 1000
          AND +run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AND coalesce($4 <= $7, 1)
          AND id > iif($4 = $7, $5, -9223372036854775808) AND id < $8
        ORDER BY id
        LIMIT +$6)
)
WHERE NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
LIMIT +$6

-- name: preview_newest
-- As `preview`, newest first. Times and ids are negated, so that the newest sorts first.
SELECT priority, run_at * -1000 AS place, -1 - id AS id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
ORDER BY run_at DESC, queue_jobs.id DESC
LIMIT +$4

-- name: claim
-- Claims rows of one ask, the most common case. It ends with the eighth row of long arguments (more than 16 KiB),
-- because a claim rewrites whole rows. The fence wraps and the attempt is capped: a row edited to the maximum must not
-- fail the claim of other rows.
UPDATE queue_jobs
SET worker_id = $1, fence = fence % 1000000000 + 1, attempt = min(attempt + 1, 1000000000), cancel_requested_at = NULL,
    claimed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    max_retries = coalesce(max_retries, $8)
WHERE id IN (
    SELECT id FROM queue_jobs INDEXED BY queue_jobs_waiting
    WHERE worker_id = 0 AND kind = $2 AND queue = $3 AND priority = $4
      AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
      AND (run_at, id) > (coalesce($5 / 1000, -9223372036854775808), $6)
      AND (run_at, id) <= (
          SELECT run_at, id FROM (
              SELECT run_at, id FROM queue_jobs INDEXED BY queue_jobs_long
              WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384 AND kind = $2 AND queue = $3 AND priority = $4
                AND (run_at, id) > (coalesce($5 / 1000, -9223372036854775808), $6)
              ORDER BY run_at, id LIMIT 1 OFFSET 7)
          UNION ALL SELECT 9223372036854775807, 0 ORDER BY 1 LIMIT 1)
      AND EXISTS (SELECT 1 FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
                  WHERE w.id = $1 AND w.stopped_at IS NULL
                    AND b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
      AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $3)
    ORDER BY run_at, id
    LIMIT +$7)
RETURNING id, fence, attempt, max_retries, run_at * 1000, enqueued_at * 1000, octet_length(args),
          CASE WHEN octet_length(args) <= $9 THEN args END, losses, meta

-- name: claim_many
-- As `claim`, for several asks and for newest-first ones. $2: `{kind: max_retries}`.
UPDATE queue_jobs
SET worker_id = $1, fence = fence % 1000000000 + 1, attempt = min(attempt + 1, 1000000000), cancel_requested_at = NULL,
    claimed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    max_retries = coalesce(max_retries, (SELECT r.value FROM json_each($2) AS r WHERE r.key = kind))
WHERE EXISTS (SELECT 1 FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
              WHERE w.id = $1 AND w.stopped_at IS NULL
                AND b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
  AND id IN (/* lanes */)
RETURNING id, fence, attempt, max_retries, run_at * 1000, enqueued_at * 1000, octet_length(args),
          CASE WHEN octet_length(args) <= $3 THEN args END, losses, meta, kind, queue, priority

-- name: next
-- The next due rows of one ask, for `claim_many`. It ends with the first row of long arguments (more than 16 KiB).
SELECT id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
  AND (run_at, id) <= (
      SELECT run_at, id FROM (
          SELECT run_at, id FROM queue_jobs INDEXED BY queue_jobs_long
          WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384 AND kind = $1 AND queue = $2 AND priority = $3
            AND (run_at, id) > (coalesce($4 / 1000, -9223372036854775808), $5)
          ORDER BY run_at, id LIMIT 1)
      UNION ALL SELECT 9223372036854775807, 0 ORDER BY 1 LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
ORDER BY run_at, id
LIMIT +$6

-- name: next_newest
-- As `next`, newest first.
SELECT id
FROM queue_jobs INDEXED BY queue_jobs_waiting
WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority = $3
  AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  AND (run_at, id) >= (
      SELECT run_at, id FROM (
          SELECT run_at, id FROM queue_jobs INDEXED BY queue_jobs_long
          WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384 AND kind = $1 AND queue = $2 AND priority = $3
            AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
          ORDER BY run_at DESC, id DESC LIMIT 1)
      UNION ALL SELECT -9223372036854775808, 0 ORDER BY 1 DESC LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $2)
ORDER BY run_at DESC, id DESC
LIMIT +$4
