-- How a worker finds jobs and takes them.

-- name: discover
-- Lanes, from the first few waiting rows of each. The engines' own skip scan ("Using index for group-by") depends on
-- statistics, which may be older than the rows. Without it they walk over all rows, as MariaDB always does when it runs
-- a prepared statement again. This statement reads no more than its limits, whatever the statistics say.
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MIN(l.run_at)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), MIN(l.id), COUNT(*), MAX(p.queue IS NOT NULL), l.ask
FROM (/* lanes */) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
GROUP BY l.ask, l.kind, l.queue, l.priority
ORDER BY l.ask, l.kind, l.queue, l.priority

-- name: discover_behind
-- Waiting rows of one kind behind a given lane. With several kinds in one condition, each would be read from its start.
SELECT kind, queue, priority, run_at, id
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE worker_id = 0 AND kind = $1 AND (queue > $2 OR (queue = $2 AND priority > $3))
ORDER BY queue, priority, run_at, id
LIMIT $4

-- name: discover_rest
-- The first waiting rows of several kinds.
SELECT kind, queue, priority, run_at, id, -1 AS ask
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE worker_id = 0 AND kind IN (/* places */)
ORDER BY kind, queue, priority, run_at, id
LIMIT $1

-- name: discover_all
-- One row per lane, for many lanes. The seventh column excludes a lane whose queue is paused or whose rows are all
-- held.
SELECT l.kind, l.queue, l.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), CAST(-9223372036854775808 AS SIGNED),
       p.queue IS NOT NULL
       OR (SELECT 1 FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
           WHERE j.kind = l.kind AND j.queue = l.queue AND j.priority = l.priority AND j.worker_id = 0 LIMIT 1) IS NULL,
       l.ask
FROM (/* lanes */) AS l
LEFT JOIN queue_paused AS p ON p.queue = l.queue
ORDER BY l.ask, l.queue, l.priority

-- name: discover_all_behind
-- The lanes of one kind behind a given lane. The engine uses its skip scan ("Using index for group-by"), or walks over
-- the index if it expects few rows per lane. Both stop after $4 lanes. The skip scan needs a GROUP BY that starts with
-- the first column of the index.
SELECT kind, queue, priority, MIN(run_at) AS run_at
FROM queue_jobs FORCE INDEX (queue_jobs_order)
WHERE kind = $1 AND (queue > $2 OR (queue = $2 AND priority > $3))
GROUP BY kind, queue, priority
LIMIT $4

-- name: preview
-- The places of the next due rows of one ask. No locks.
SELECT j.priority, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at) AS place, j.id
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $2) = 0
  AND (j.run_at > TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND AND j.id > $5))
  AND j.run_at >= TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
  AND (j.run_at < TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND AND j.id < $8))
  AND j.run_at <= TIMESTAMP('1970-01-01') + INTERVAL $7 MICROSECOND
ORDER BY j.run_at, j.id
LIMIT $6

-- name: preview_many
-- A preview: how the next $1 jobs in order spread over the lanes. For each lane: the number of jobs that are among the
-- first $2 or before priority $3 and place ($4, $5); the number before that place; the number of all; the first and
-- last time; the lowest and highest id. No locks.
SELECT ask,
       COUNT(CASE WHEN number <= $2 OR priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5)))
           THEN 1 END),
       COUNT(CASE WHEN priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5))) THEN 1 END),
       COUNT(*), MIN(place), MAX(place), MIN(id), MAX(id)
FROM (
    SELECT ask, priority, place, id, ROW_NUMBER() OVER (ORDER BY priority, place, id) AS number
    FROM (/* lanes */ ORDER BY priority, place, id LIMIT $1) AS due
) AS next
GROUP BY ask

-- name: preview_newest
-- As `preview`, newest first. Times and ids are negated, so that the newest sorts first.
SELECT j.priority, -TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at) AS place, -1 - j.id AS id
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $2) = 0
ORDER BY j.run_at DESC, j.id DESC
LIMIT $4

-- name: claim
-- Locks the next due rows of one ask, and no other rows. The fence wraps and the attempt is capped: a row edited to the
-- maximum must not fail the claim of other rows.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $8),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $9 THEN j.args END, j.losses, j.meta
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $2 AND j.queue = $3 AND j.priority = $4 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (j.run_at > TIMESTAMP('1970-01-01') + INTERVAL $5 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $5 MICROSECOND AND j.id > $6))
  AND j.run_at >= TIMESTAMP('1970-01-01') + INTERVAL $5 MICROSECOND
  AND (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
       WHERE w.id = $1 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)) = 1
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $3) = 0
ORDER BY j.run_at, j.id
LIMIT $7
FOR UPDATE SKIP LOCKED

-- name: claim_newest
-- Locks the newest due rows of one ask, and no other rows.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $6),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $7 THEN j.args END, j.losses, j.meta
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $2 AND j.queue = $3 AND j.priority = $4 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
       WHERE w.id = $1 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)) = 1
  AND (SELECT COUNT(*) FROM queue_paused AS p WHERE p.queue = $3) = 0
ORDER BY j.run_at DESC, j.id DESC
LIMIT $5
FOR UPDATE SKIP LOCKED

-- name: next
-- As `claim`, for one of several asks. `claim_allowed` has checked the worker and the queues: a union that repeats
-- these conditions costs the server more than one extra statement.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $7),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $8 THEN j.args END, j.losses, j.meta
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (j.run_at > TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
       OR (j.run_at = TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND AND j.id > $5))
  AND j.run_at >= TIMESTAMP('1970-01-01') + INTERVAL $4 MICROSECOND
ORDER BY j.run_at, j.id
LIMIT $6
FOR UPDATE SKIP LOCKED

-- name: next_newest
-- As `next`, newest first.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $5),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $6 THEN j.args END, j.losses, j.meta
FROM queue_jobs AS j FORCE INDEX (queue_jobs_order)
WHERE j.worker_id = 0 AND j.kind = $1 AND j.queue = $2 AND j.priority = $3 AND j.run_at <= UTC_TIMESTAMP(6)
ORDER BY j.run_at DESC, j.id DESC
LIMIT $4
FOR UPDATE SKIP LOCKED

-- name: claim_allowed
-- The paused queues, or one NULL, for a claim of several asks. No row if the worker has no valid lease.
SELECT p.queue
FROM queue_workers AS w
STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
LEFT JOIN queue_paused AS p ON TRUE
WHERE w.id = $1 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)

-- name: claim_due
-- The places of the next due rows of one ask, and whether rows of the served kinds wait in another lane.
SELECT due.priority, due.place, due.id, (/* others */) FROM (/* lanes */) AS due

-- name: claim_others
-- Whether rows of the served kinds wait in another lane. No probe walks over the dead index entries of this lane.
-- (Queue and priority are separate conditions: a row comparison with > is read from the start of the kind.)
SELECT EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order)
               WHERE worker_id = 0 AND kind = $1 AND queue < $2)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order)
               WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority < $3)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order)
               WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority > $3)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order)
               WHERE worker_id = 0 AND kind = $1 AND queue > $2)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order)
               WHERE worker_id = 0 AND kind IN (/* places */))

-- name: claim_numbers
-- Locks rows by id, and no other rows. An earlier read without locks found them due. A row may have moved to another
-- lane since then, so each row names its lane.
-- The last column is 1 in a Galera cluster. There, another node may abort the transaction between two statements of one
-- text, and the rest would run outside it. So the statements that follow travel separately.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $3),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $4 THEN j.args END, j.losses, j.meta,
       j.kind, j.queue, j.priority, COALESCE(@queue_in_cluster, 0)
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = 0 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
       WHERE w.id = $2 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)) = 1
FOR UPDATE SKIP LOCKED

-- name: claim_mark
-- Marks locked rows as claimed. $2: a list of `[id, max_retries]`.
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$[0]', max_retries INT PATH '$[1]')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = $1, j.fence = j.fence % 1000000000 + 1, j.attempt = LEAST(j.attempt + 1, 1000000000),
    j.claimed_at = UTC_TIMESTAMP(6), j.cancel_requested_at = NULL, j.max_retries = d.max_retries

-- name: claim_mark_runs
-- Marks locked rows as claimed, by ranges of ids, if all asks have the same default for max_retries. Plain ranges are
-- enough: unlike the DELETE in `finish`, an UPDATE does not wait for the row behind a range.
UPDATE queue_jobs AS j FORCE INDEX (PRIMARY)
SET j.worker_id = $1, j.fence = j.fence % 1000000000 + 1, j.attempt = LEAST(j.attempt + 1, 1000000000),
    j.claimed_at = UTC_TIMESTAMP(6), j.cancel_requested_at = NULL,
        j.max_retries = GREATEST(COALESCE(j.max_retries, $2), 0)
WHERE j.id BETWEEN $3 AND $4 OR j.id BETWEEN $5 AND $6 OR j.id BETWEEN $7 AND $8 OR j.id BETWEEN $9 AND $10
   OR j.id BETWEEN $11 AND $12 OR j.id BETWEEN $13 AND $14 OR j.id BETWEEN $15 AND $16 OR j.id BETWEEN $17 AND $18

-- name: claim_note
INSERT INTO queue_claims (worker_id, job_ids) VALUES ($1, $2)
