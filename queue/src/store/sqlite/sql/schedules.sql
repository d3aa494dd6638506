-- Schedules.

-- name: look
-- The only statement that a worker sends again and again for schedules. One row:
--   due       ids of schedules of these kinds that are due
--   next      microseconds until the next one, within 35 seconds
--   since     when this worker's process joined first (NULL: it is not registered)
--   decides   it is the latest live worker of its application
--   digest    of what the application declares now
--   orphans   ids of schedules of other kinds that have been due for a minute, and have no error yet
-- $1: application, $2: kinds, $3: worker, $4: the most ids, $5: microseconds that a test is ahead of the clock
WITH c (now) AS MATERIALIZED (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $5 / 1000)
SELECT (SELECT json_group_array(d.id) FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at <= (SELECT now FROM c) AND s.kind IN (SELECT value FROM json_each($2))
               ORDER BY s.next_at LIMIT +$4) AS d),
       (SELECT (s.next_at - c.now) * 1000 FROM queue_schedules AS s, c
        WHERE s.next_at > (SELECT now FROM c) AND s.next_at <= (SELECT now FROM c) + 35000
          AND s.kind IN (SELECT value FROM json_each($2))
        ORDER BY s.next_at LIMIT 1),
       (SELECT m.since * 1000 FROM queue_schedulers AS m WHERE m.worker_id = $3),
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS o
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE o.app = $1 AND (o.since, o.worker_id) > (SELECT m.since, m.worker_id FROM queue_schedulers AS m
                                                                  WHERE m.worker_id = $3)),
       (SELECT a.digest FROM queue_apps AS a WHERE a.app = $1),
       (SELECT json_group_array(o.id) FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at < (SELECT now FROM c) - 60000 AND s.changed_at < (SELECT now FROM c) - 60000
                 AND s.kind NOT IN (SELECT value FROM json_each($2))
                 AND s.error IS NULL
               ORDER BY s.next_at LIMIT 100) AS o)

-- name: lock
-- The schedules that are still due. $1: ids, $2: microseconds that a test is ahead of the clock
SELECT id FROM queue_schedules
WHERE id IN (SELECT value FROM json_each($1))
  AND next_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2 / 1000

-- name: rows
-- Schedules as `plan` reads them. `busy`: with `overlap = skip`, the oldest job that waits or runs. It is the last one,
-- or one that somebody fired by hand after it. `watched`: a live worker knows the kind. $1: ids, $2: microseconds that
-- a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms, s.changed_at * 1000, s.paused_at * 1000,
       s.retired_at * 1000, s.next_at * 1000, s.last_at * 1000, s.last_job_id, s.error,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + $2,
       CASE WHEN s.overlap = 'skip' THEN
           coalesce((SELECT j.id FROM queue_jobs AS j WHERE j.id = s.last_job_id),
                    (SELECT t.job_id FROM queue_ticks AS t CROSS JOIN queue_jobs AS j ON j.id = t.job_id
                     WHERE t.schedule_id = s.id
                       AND t.tick_at >= coalesce((SELECT min(l.tick_at) FROM queue_ticks AS l
                                                  WHERE l.job_id = s.last_job_id), 0)
                     ORDER BY t.tick_at LIMIT 1))
       END,
       EXISTS (SELECT 1 FROM queue_schedulers AS o
               JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE s.kind IN (SELECT value FROM json_each(w.kinds)))
FROM queue_schedules AS s
WHERE s.id IN (SELECT value FROM json_each($1))
ORDER BY s.name

-- name: taken
-- The ticks of a schedule between two times that are decided. $1: schedule, $2: the first time, $3: the last time
SELECT tick_at * 1000 FROM queue_ticks WHERE schedule_id = $1 AND tick_at >= $2 / 1000 AND tick_at <= $3 / 1000

-- name: ticks
-- Notes what happened at ticks.
INSERT INTO queue_ticks (schedule_id, tick_at, job_id, outcome, skipped, note)
SELECT value ->> 'id', (value ->> 'tick_us') / 1000, value ->> 'job_id', value ->> 'outcome', value ->> 'skipped',
       value ->> 'note'
FROM json_each($1)

-- name: moved
-- Moves locked schedules to their next ticks.
UPDATE queue_schedules AS s
SET next_at = (m.value ->> 'next_us') / 1000, last_at = coalesce((m.value ->> 'last_us') / 1000, s.last_at),
    last_job_id = coalesce(m.value ->> 'job_id', s.last_job_id), error = m.value ->> 'error'
FROM json_each($1) AS m
WHERE s.id = m.value ->> 'id'

-- name: silent
-- Names of schedules that are silent: the clock was ahead, and their last tick is more than a minute away
SELECT name FROM queue_schedules
WHERE last_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 60000 AND next_at > last_at
ORDER BY name LIMIT 20

-- name: register
-- step: all
DELETE FROM queue_schedulers
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = queue_schedulers.worker_id AND w.stopped_at IS NULL)

-- step: all
-- $1: worker, $2: application, $3: when its process joined first (NULL: now)
INSERT INTO queue_schedulers (worker_id, app, since)
VALUES ($1, $2, coalesce($3 / 1000, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)))
ON CONFLICT DO NOTHING

-- step: all
INSERT INTO queue_apps (app) VALUES ($2) ON CONFLICT DO NOTHING

-- name: app
-- Columns: the digest of an application, and whether this worker is its latest live one. $1: application, $2: worker
SELECT a.digest,
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS o
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE o.app = $1 AND (o.since, o.worker_id) > (SELECT m.since, m.worker_id FROM queue_schedulers AS m
                                                                  WHERE m.worker_id = $2))
FROM queue_apps AS a
WHERE a.app = $1

-- name: of_app
-- The schedules of an application, and those with these names. Columns: id, and whether a live worker
-- belongs to its application. $1: application, $2: names
SELECT s.id, EXISTS (SELECT 1 FROM queue_schedulers AS o
                     JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                     WHERE o.app = s.app)
FROM queue_schedules AS s
WHERE s.app = $1 OR s.name IN (SELECT value FROM json_each($2))
ORDER BY s.id

-- name: named
-- $1: name
SELECT id FROM queue_schedules WHERE name = $1

-- name: define
-- Writes schedules by name. A pause stays, unless the schedule was removed or was another application's. $1:
-- definitions, $2: application
INSERT INTO queue_schedules (name, app, kind, queue, args, priority, max_retries, expression, zone, gap, fold, missed,
                             window_s, overlap, jitter_ms)
SELECT value ->> 'name', $2, value ->> 'kind', value ->> 'queue', value ->> 'args', value ->> 'priority',
       value ->> 'max_retries', value ->> 'expression', value ->> 'zone', value ->> 'gap', value ->> 'fold',
       value ->> 'missed', value ->> 'window_s', value ->> 'overlap', value ->> 'jitter_ms'
FROM json_each($1)
WHERE true
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, kind = excluded.kind, queue = excluded.queue, args = excluded.args,
    priority = excluded.priority, max_retries = excluded.max_retries, expression = excluded.expression,
    zone = excluded.zone, gap = excluded.gap, fold = excluded.fold, missed = excluded.missed,
    window_s = excluded.window_s, overlap = excluded.overlap, jitter_ms = excluded.jitter_ms,
    changed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), retired_at = NULL, error = NULL,
    paused_at = iif(retired_at IS NULL AND app = excluded.app, paused_at, NULL),
    next_at = iif(paused_at IS NULL OR retired_at IS NOT NULL OR app <> excluded.app, 0, NULL)

-- name: decided
-- step: all
-- Another application may declare what this one has given up. $1: application, $2: digest, $3: worker, $4: whether it
-- has given up any
UPDATE queue_apps SET digest = '' WHERE app <> $1 AND $4 = 1

-- step: all
UPDATE queue_apps
SET digest = $2, worker_id = $3, decided_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE app = $1

-- name: retire
UPDATE queue_schedules SET retired_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), next_at = NULL
WHERE id IN (SELECT value FROM json_each($1))

-- name: pause
-- $1: ids
UPDATE queue_schedules
SET paused_at = coalesce(paused_at, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)), next_at = NULL
WHERE id IN (SELECT value FROM json_each($1))

-- name: resume
-- While it was paused, nothing was missed. $1: ids
UPDATE queue_schedules
SET paused_at = NULL, changed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), next_at = 0
WHERE id IN (SELECT value FROM json_each($1)) AND paused_at IS NOT NULL

-- name: history
-- The ticks of a schedule, the latest first; a row of NULLs if it has none.
-- $1: name, $2: before this time, $3: the most rows
SELECT tick_at * 1000, job_id, outcome, skipped, note, at * 1000 FROM queue_schedules AS s
LEFT JOIN queue_ticks AS t ON t.schedule_id = s.id AND t.tick_at < $2 / 1000
WHERE s.name = $1
ORDER BY t.tick_at DESC LIMIT +$3

-- name: tick_of
-- The tick that a job stands for. $1: job
SELECT s.name, t.tick_at * 1000, t.outcome FROM queue_ticks AS t JOIN queue_schedules AS s ON s.id = t.schedule_id
WHERE t.job_id = $1

-- name: purge
-- step: each
-- Ticks are kept as long as their jobs: no job, no dead letter and no history is left of these.
-- $1: age in microseconds, $2: the most ticks
DELETE FROM queue_ticks
WHERE (schedule_id, tick_at) IN (
    SELECT o.schedule_id, o.tick_at FROM queue_ticks AS o
    WHERE o.tick_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
      AND o.at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
      AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = o.job_id)
    ORDER BY o.tick_at LIMIT +$2)

-- step: all
DELETE FROM queue_schedules
WHERE retired_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
  AND NOT EXISTS (SELECT 1 FROM queue_ticks AS t WHERE t.schedule_id = queue_schedules.id)
