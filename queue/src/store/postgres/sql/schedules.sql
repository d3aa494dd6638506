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
SELECT (SELECT json_agg(d.id)::text FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at <= c.now AND s.kind = ANY (c.kinds) ORDER BY s.next_at LIMIT $4) AS d),
       (SELECT (extract(epoch FROM s.next_at - c.now) * 1000000)::bigint FROM queue_schedules AS s
        WHERE s.next_at > c.now AND s.next_at <= c.now + interval '35 s' AND s.kind = ANY (c.kinds)
        ORDER BY s.next_at LIMIT 1),
       (SELECT m.since FROM queue_schedulers AS m WHERE m.worker_id = $3),
       (NOT EXISTS (SELECT FROM queue_schedulers AS o
                    JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                    WHERE o.app = $1 AND (o.since, o.worker_id) >
                          (SELECT m.since, m.worker_id FROM queue_schedulers AS m WHERE m.worker_id = $3)))::int,
       (SELECT a.digest FROM queue_apps AS a WHERE a.app = $1),
       (SELECT json_agg(o.id)::text FROM (SELECT s.id FROM queue_schedules AS s
               WHERE s.next_at < c.now - interval '60 s' AND s.changed_at < c.now - interval '60 s'
                 AND s.kind <> ALL (c.kinds) AND s.error IS NULL ORDER BY s.next_at LIMIT 100) AS o)
FROM (SELECT now() + $5 * interval '1 microsecond' AS now,
             ARRAY(SELECT k FROM json_array_elements_text($2::json) AS k) AS kinds) AS c

-- name: lock
-- Locks the schedules that are still due. $1: ids, $2: microseconds that a test is ahead of the clock
SELECT id FROM queue_schedules
WHERE id = ANY ($1) AND next_at <= now() + $2 * interval '1 microsecond'
ORDER BY id
FOR UPDATE SKIP LOCKED

-- name: rows
-- Schedules as `plan` reads them. `busy`: with `overlap = skip`, the oldest job that waits or runs. It is the last one,
-- or one that somebody fired by hand after it. `watched`: a live worker knows the kind. $1: ids, $2: microseconds that
-- a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args::text, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms, s.changed_at, s.paused_at, s.retired_at, s.next_at,
       s.last_at, s.last_job_id, s.error, now() + $2 * interval '1 microsecond',
       CASE WHEN s.overlap = 'skip' THEN
           coalesce((SELECT j.id FROM queue_jobs AS j WHERE j.id = s.last_job_id),
                    (SELECT t.job_id FROM queue_ticks AS t JOIN queue_jobs AS j ON j.id = t.job_id
                     WHERE t.schedule_id = s.id
                       AND t.tick_at >= coalesce((SELECT min(l.tick_at) FROM queue_ticks AS l
                                                  WHERE l.job_id = s.last_job_id), timestamptz 'epoch')
                     ORDER BY t.tick_at LIMIT 1))
       END,
       EXISTS (SELECT FROM queue_schedulers AS o JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE s.kind IN (SELECT k FROM json_array_elements_text(w.kinds) AS k))::int
FROM queue_schedules AS s
WHERE s.id = ANY ($1)
ORDER BY s.name

-- name: taken
-- The ticks of a schedule between two times that are decided. $1: schedule, $2: the first time, $3: the last time
SELECT tick_at FROM queue_ticks
WHERE schedule_id = $1 AND tick_at >= timestamptz 'epoch' + $2 * interval '1 microsecond'
  AND tick_at <= timestamptz 'epoch' + $3 * interval '1 microsecond'

-- name: ticks
-- Notes what happened at ticks, all at one time.
INSERT INTO queue_ticks (schedule_id, tick_at, job_id, outcome, skipped, note, at)
SELECT id, timestamptz 'epoch' + tick_us * interval '1 microsecond', job_id, outcome, skipped, note,
       statement_timestamp()
FROM json_to_recordset($1::json) AS t (
    id bigint, tick_us bigint, job_id bigint, outcome text, skipped integer, note text)

-- name: moved
-- Moves locked schedules to their next ticks.
UPDATE queue_schedules AS s
SET next_at = timestamptz 'epoch' + m.next_us * interval '1 microsecond',
    last_at = coalesce(timestamptz 'epoch' + m.last_us * interval '1 microsecond', s.last_at),
    last_job_id = coalesce(m.job_id, s.last_job_id), error = m.error
FROM json_to_recordset($1::json) AS m (id bigint, next_us bigint, last_us bigint, job_id bigint, error text)
WHERE s.id = ANY (ARRAY(SELECT i.id FROM json_to_recordset($1::json) AS i (id bigint))) AND s.id = m.id

-- name: silent
-- Names of schedules that are silent: the clock was ahead, and their last tick is more than a minute away
SELECT name FROM queue_schedules WHERE last_at > now() + interval '60 s' AND next_at > last_at ORDER BY name LIMIT 20

-- name: register
-- step: all
DELETE FROM queue_schedulers AS o
WHERE NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = o.worker_id AND w.stopped_at IS NULL)

-- step: all
-- $1: worker, $2: application, $3: when its process joined first (NULL: now)
INSERT INTO queue_schedulers (worker_id, app, since)
VALUES ($1, $2, coalesce(timestamptz 'epoch' + $3 * interval '1 microsecond', clock_timestamp()))
ON CONFLICT DO NOTHING

-- step: all
INSERT INTO queue_apps (app) VALUES ($2) ON CONFLICT DO NOTHING

-- name: app
-- Locks an application. Columns: digest, and whether this worker is its latest live one. $1: application, $2: worker
SELECT a.digest,
       (NOT EXISTS (SELECT FROM queue_schedulers AS o
                    JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                    WHERE o.app = $1 AND (o.since, o.worker_id) >
                          (SELECT m.since, m.worker_id FROM queue_schedulers AS m WHERE m.worker_id = $2)))::int
FROM queue_apps AS a
WHERE a.app = $1
FOR UPDATE OF a

-- name: of_app
-- Locks the schedules of an application, and those with these names. Columns: id, and whether a live
-- worker belongs to its application. $1: application, $2: names
SELECT s.id, EXISTS (SELECT FROM queue_schedulers AS o
                     JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                     WHERE o.app = s.app)::int
FROM queue_schedules AS s
WHERE s.app = $1 OR s.name = ANY (ARRAY(SELECT n FROM json_array_elements_text($2::json) AS n))
ORDER BY s.id
FOR UPDATE OF s

-- name: named
-- Locks the schedule with a name. $1: name
SELECT id FROM queue_schedules WHERE name = $1 FOR UPDATE

-- name: define
-- Writes schedules by name. A pause stays, unless the schedule was removed or was another application's. $1:
-- definitions, $2: application
INSERT INTO queue_schedules (name, app, kind, queue, args, priority, max_retries, expression, zone, gap, fold, missed,
                             window_s, overlap, jitter_ms)
SELECT d.name, $2, d.kind, d.queue, d.args::json, d.priority, d.max_retries, d.expression, d.zone, d.gap, d.fold,
       d.missed, d.window_s, d.overlap, d.jitter_ms
FROM json_to_recordset($1::json) AS d (
    name text, kind text, queue text, args text, priority smallint, max_retries integer, expression text, zone text,
    gap text, fold text, missed text, window_s bigint, overlap text, jitter_ms bigint)
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, kind = excluded.kind, queue = excluded.queue, args = excluded.args,
    priority = excluded.priority, max_retries = excluded.max_retries, expression = excluded.expression,
    zone = excluded.zone, gap = excluded.gap, fold = excluded.fold, missed = excluded.missed,
    window_s = excluded.window_s, overlap = excluded.overlap, jitter_ms = excluded.jitter_ms, changed_at = now(),
    retired_at = NULL, error = NULL,
    paused_at = CASE WHEN queue_schedules.retired_at IS NULL AND queue_schedules.app = excluded.app
                     THEN queue_schedules.paused_at END,
    next_at = CASE WHEN queue_schedules.paused_at IS NULL OR queue_schedules.retired_at IS NOT NULL
                        OR queue_schedules.app <> excluded.app THEN timestamptz 'epoch' END

-- name: decided
-- step: all
-- Another application may declare what this one has given up. $1: application, $2: digest, $3: worker, $4: whether it
-- has given up any
UPDATE queue_apps SET digest = '' WHERE app <> $1 AND $4 = 1

-- step: all
UPDATE queue_apps SET digest = $2, worker_id = $3, decided_at = now() WHERE app = $1

-- name: retire
UPDATE queue_schedules SET retired_at = now(), next_at = NULL WHERE id = ANY ($1)

-- name: pause
-- $1: ids
UPDATE queue_schedules SET paused_at = coalesce(paused_at, now()), next_at = NULL WHERE id = ANY ($1)

-- name: resume
-- While it was paused, nothing was missed. $1: ids
UPDATE queue_schedules SET paused_at = NULL, changed_at = now(), next_at = timestamptz 'epoch'
WHERE id = ANY ($1) AND paused_at IS NOT NULL

-- name: history
-- The ticks of a schedule, the latest first; a row of NULLs if it has none.
-- $1: name, $2: before this time, $3: the most rows
SELECT tick_at, job_id, outcome, skipped, note, at FROM queue_schedules AS s
LEFT JOIN queue_ticks AS t ON t.schedule_id = s.id AND t.tick_at < timestamptz 'epoch' + $2 * interval '1 microsecond'
WHERE s.name = $1
ORDER BY t.tick_at DESC LIMIT $3

-- name: tick_of
-- The tick that a job stands for. $1: job
SELECT s.name, t.tick_at, t.outcome FROM queue_ticks AS t JOIN queue_schedules AS s ON s.id = t.schedule_id
WHERE t.job_id = $1

-- name: purge
-- step: each
-- Ticks are kept as long as their jobs: no job, no dead letter and no history is left of these.
-- $1: age in microseconds, $2: the most ticks
DELETE FROM queue_ticks AS t
USING (SELECT o.schedule_id, o.tick_at FROM queue_ticks AS o
       WHERE o.tick_at < now() - $1 * interval '1 microsecond' AND o.at < now() - $1 * interval '1 microsecond'
         AND NOT EXISTS (SELECT FROM queue_jobs AS j WHERE j.id = o.job_id)
         AND NOT EXISTS (SELECT FROM queue_dead AS j WHERE j.id = o.job_id)
         AND NOT EXISTS (SELECT FROM queue_history AS j WHERE j.id = o.job_id)
       ORDER BY o.tick_at LIMIT $2) AS d
WHERE t.schedule_id = d.schedule_id AND t.tick_at = d.tick_at

-- step: all
DELETE FROM queue_schedules AS s
WHERE s.retired_at < now() - $1 * interval '1 microsecond'
  AND NOT EXISTS (SELECT FROM queue_ticks AS t WHERE t.schedule_id = s.id)
