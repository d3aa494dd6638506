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
SELECT (SELECT JSON_ARRAYAGG(d.id) FROM (SELECT s.id FROM queue_schedules AS s FORCE INDEX (queue_schedules_next)
               WHERE s.next_at <= UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND
                 AND JSON_CONTAINS($2, JSON_QUOTE(s.kind))
               ORDER BY s.next_at LIMIT $4) AS d),
       (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND, s.next_at)
        FROM queue_schedules AS s FORCE INDEX (queue_schedules_next)
        WHERE s.next_at > UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND
          AND s.next_at <= UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND + INTERVAL 35 SECOND
          AND JSON_CONTAINS($2, JSON_QUOTE(s.kind))
        ORDER BY s.next_at LIMIT 1),
       (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', m.since) FROM queue_schedulers AS m WHERE m.worker_id = $3),
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS m
                   JOIN queue_schedulers AS o ON o.app = m.app
                       AND (o.since > m.since OR (o.since = m.since AND o.worker_id > m.worker_id))
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE m.worker_id = $3),
       (SELECT a.digest FROM queue_apps AS a WHERE a.app = $1),
       (SELECT JSON_ARRAYAGG(o.id) FROM (SELECT s.id FROM queue_schedules AS s FORCE INDEX (queue_schedules_next)
               WHERE s.next_at < UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND - INTERVAL 60 SECOND
                 AND s.changed_at < UTC_TIMESTAMP(6) + INTERVAL $5 MICROSECOND - INTERVAL 60 SECOND
                 AND NOT JSON_CONTAINS($2, JSON_QUOTE(s.kind))
                 AND s.error IS NULL
               ORDER BY s.next_at LIMIT 100) AS o)

-- name: lock
-- Locks the schedules that are still due. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
-- $1: ids, $2: microseconds that a test is ahead of the clock
SELECT s.id
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
WHERE s.next_at <= UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND
FOR UPDATE SKIP LOCKED

-- name: rows
-- Schedules as `plan` reads them. `busy`: with `overlap = skip`, the oldest job that waits or runs. It is the last one,
-- or one that somebody fired by hand after it. `watched`: a live worker knows the kind. $1: ids, $2: microseconds that
-- a test is ahead of the clock
SELECT s.id, s.name, s.app, s.kind, s.queue, s.args, s.priority, s.max_retries, s.expression, s.zone, s.gap,
       s.fold, s.missed, s.window_s, s.overlap, s.jitter_ms,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.changed_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.paused_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.retired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.next_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.last_at), s.last_job_id, s.error,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $2,
       CASE WHEN s.overlap = 'skip' THEN
           COALESCE((SELECT j.id FROM queue_jobs AS j FORCE INDEX (PRIMARY) WHERE j.id = s.last_job_id),
                    (SELECT t.job_id FROM queue_ticks AS t FORCE INDEX (PRIMARY)
                     STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = t.job_id
                     WHERE t.schedule_id = s.id
                       AND t.tick_at >= COALESCE((SELECT MIN(l.tick_at) FROM queue_ticks AS l
                                                  WHERE l.job_id = s.last_job_id), '1970-01-01')
                     ORDER BY t.tick_at LIMIT 1))
       END,
       EXISTS (SELECT 1 FROM queue_schedulers AS o
               JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
               WHERE JSON_CONTAINS(w.kinds, JSON_QUOTE(s.kind)))
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
ORDER BY s.name

-- name: taken
-- The ticks of a schedule between two times that are decided. $1: schedule, $2: the first time, $3: the last time
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', tick_at) FROM queue_ticks
WHERE schedule_id = $1 AND tick_at >= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $2 MICROSECOND
  AND tick_at <= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $3 MICROSECOND

-- name: ticks
-- Notes what happened at ticks.
INSERT INTO queue_ticks (schedule_id, tick_at, job_id, outcome, skipped, note)
SELECT id, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL tick_us MICROSECOND, job_id, outcome, skipped, note
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', tick_us BIGINT PATH '$.tick_us', job_id BIGINT PATH '$.job_id',
    outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome', skipped INT PATH '$.skipped',
    note TEXT CHARACTER SET utf8mb4 PATH '$.note')) AS t

-- name: moved
-- Moves locked schedules to their next ticks.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', next_us BIGINT PATH '$.next_us', last_us BIGINT PATH '$.last_us',
    job_id BIGINT PATH '$.job_id', error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS m
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = m.id
SET s.next_at = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL m.next_us MICROSECOND,
    s.last_at = COALESCE(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL m.last_us MICROSECOND, s.last_at),
    s.last_job_id = COALESCE(m.job_id, s.last_job_id), s.error = m.error

-- name: silent
-- Names of schedules that are silent: the clock was ahead, and their last tick is more than a minute away
SELECT name FROM queue_schedules
WHERE last_at > UTC_TIMESTAMP(6) + INTERVAL 60 SECOND AND next_at > last_at
ORDER BY name LIMIT 20

-- name: register
-- step: all
DELETE o FROM queue_schedulers AS o
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = o.worker_id AND w.stopped_at IS NULL)

-- step: all
-- $1: worker, $2: application, $3: when its process joined first (NULL: now)
INSERT INTO queue_schedulers (worker_id, app, since)
VALUES ($1, $2, COALESCE(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $3 MICROSECOND, UTC_TIMESTAMP(6)))
ON DUPLICATE KEY UPDATE app = app

-- step: all
INSERT INTO queue_apps (app) VALUES ($2) ON DUPLICATE KEY UPDATE app = app

-- name: app
-- Locks an application. Columns: digest, and whether this worker is its latest live one. (Rows read by a subquery are
-- not locked.) $1: application, $2: worker
SELECT a.digest,
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS m
                   JOIN queue_schedulers AS o ON o.app = m.app
                       AND (o.since > m.since OR (o.since = m.since AND o.worker_id > m.worker_id))
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE m.worker_id = $2)
FROM queue_apps AS a
WHERE a.app = $1
FOR UPDATE

-- name: of_app
-- Locks the schedules of an application, and those with these names. Columns: id, and whether a live
-- worker belongs to its application. $1: application, $2: names
SELECT s.id, EXISTS (SELECT 1 FROM queue_schedulers AS o
                     JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                     WHERE o.app = s.app)
FROM queue_schedules AS s
WHERE s.app = $1 OR JSON_CONTAINS($2, JSON_QUOTE(s.name))
ORDER BY s.id
FOR UPDATE

-- name: named
-- Locks the schedule with a name. $1: name
SELECT id FROM queue_schedules WHERE name = $1 FOR UPDATE

-- name: define
-- Writes schedules by name. A pause stays, unless the schedule was removed or was another application's. $1:
-- definitions, $2: application
INSERT INTO queue_schedules (name, app, kind, queue, args, priority, max_retries, expression, zone, gap, fold, missed,
                             window_s, overlap, jitter_ms)
SELECT d.name, $2, d.kind, d.queue, d.args, d.priority, d.max_retries, d.expression, d.zone, d.gap, d.fold, d.missed,
       d.window_s, d.overlap, d.jitter_ms
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    name VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.name', kind VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.kind',
    queue VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.queue', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args',
    priority SMALLINT PATH '$.priority', max_retries INT PATH '$.max_retries',
    expression VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.expression',
    zone VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.zone', gap VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.gap',
    fold VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fold', missed VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.missed',
    window_s BIGINT PATH '$.window_s', overlap VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.overlap',
    jitter_ms BIGINT PATH '$.jitter_ms')) AS d
ON DUPLICATE KEY UPDATE
    paused_at = IF(retired_at IS NULL AND app = VALUES(app), paused_at, NULL),
    app = VALUES(app), kind = VALUES(kind), queue = VALUES(queue), args = VALUES(args), priority = VALUES(priority),
    max_retries = VALUES(max_retries), expression = VALUES(expression), zone = VALUES(zone), gap = VALUES(gap),
    fold = VALUES(fold), missed = VALUES(missed), window_s = VALUES(window_s), overlap = VALUES(overlap),
    jitter_ms = VALUES(jitter_ms), changed_at = UTC_TIMESTAMP(6), retired_at = NULL, error = NULL,
    next_at = IF(paused_at IS NULL, '1970-01-01', NULL)

-- name: decided
-- step: all
-- Another application may declare what this one has given up. $1: application, $2: digest, $3: worker, $4: whether it
-- has given up any
UPDATE queue_apps SET digest = '' WHERE app <> $1 AND $4 = 1

-- step: all
UPDATE queue_apps SET digest = $2, worker_id = $3, decided_at = UTC_TIMESTAMP(6) WHERE app = $1

-- name: retire
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
SET s.retired_at = UTC_TIMESTAMP(6), s.next_at = NULL

-- name: pause
-- $1: ids
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
SET s.paused_at = COALESCE(s.paused_at, UTC_TIMESTAMP(6)), s.next_at = NULL

-- name: resume
-- While it was paused, nothing was missed. $1: ids
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
SET s.paused_at = NULL, s.changed_at = UTC_TIMESTAMP(6), s.next_at = '1970-01-01'
WHERE s.paused_at IS NOT NULL

-- name: history
-- The ticks of a schedule, the latest first; a row of NULLs if it has none.
-- $1: name, $2: before this time, $3: the most rows
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', tick_at), job_id, outcome, skipped, note,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)
FROM queue_schedules AS s
LEFT JOIN queue_ticks AS t ON t.schedule_id = s.id
    AND t.tick_at < TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $2 MICROSECOND
WHERE s.name = $1
ORDER BY t.tick_at DESC LIMIT $3

-- name: tick_of
-- The tick that a job stands for. $1: job
SELECT s.name, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', t.tick_at), t.outcome
FROM queue_ticks AS t JOIN queue_schedules AS s ON s.id = t.schedule_id
WHERE t.job_id = $1

-- name: purge
-- step: each
-- Ticks are kept as long as their jobs: no job, no dead letter and no history is left of these.
-- $1: age in microseconds, $2: the most ticks
DELETE t FROM (
    SELECT o.schedule_id, o.tick_at FROM queue_ticks AS o FORCE INDEX (queue_ticks_tick)
    WHERE o.tick_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND AND o.at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
      AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = o.job_id)
      AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = o.job_id)
    ORDER BY o.tick_at LIMIT $2) AS d
STRAIGHT_JOIN queue_ticks AS t FORCE INDEX (PRIMARY) ON t.schedule_id = d.schedule_id AND t.tick_at = d.tick_at

-- step: all
DELETE s FROM queue_schedules AS s
WHERE s.retired_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
  AND NOT EXISTS (SELECT 1 FROM queue_ticks AS t WHERE t.schedule_id = s.id)
