-- The keys of unique jobs.

-- name: take
-- Takes the keys that are free, and inserts their jobs: several statements in one call. $1 to $5: kind, queue,
-- priority, retries and features of all; $6, $7: until when they have their keys; $8: the keys; $9: the arguments;
-- $10: delays, $11: times, $12: metadata; each NULL if no job has any. The jobs get the ids behind the last one, in their order.

-- Notes from before somebody set the ids back. Hardly ever any. From here on, this transaction is the only writer.
DELETE FROM queue_unique_jobs
WHERE job_id > (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)));

INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id, held_until, free_at)
SELECT $1, w.value, last.id + 1 + w.key, $6, clock.now + ($7 + 2999) / 1000
FROM (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
CROSS JOIN json_each($8) AS w
WHERE true
ON CONFLICT DO UPDATE
SET job_id = excluded.job_id, held_until = excluded.held_until, fence = 0, free_at = excluded.free_at
WHERE (k.free_at IS NULL OR k.free_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
  AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j
      WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence));

-- Which of the keys went to these jobs. If all did, the keys need not be read again. changes() is that of the
-- statement just before: nothing may come between these three.
INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT last.id + 1 + w.key, $1, w.value, $6
FROM (SELECT changes() = json_array_length($8) AS all_are_free) AS taken
CROSS JOIN (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN json_each($8) AS w
WHERE taken.all_are_free;

INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT k.job_id, k.kind, k.unique_key, k.held_until
FROM (SELECT changes() = 0 AS some_are_taken) AS taken
CROSS JOIN (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN json_each($8) AS w
CROSS JOIN queue_unique_keys AS k ON k.kind = $1 AND k.unique_key = w.value
WHERE taken.some_are_taken AND k.job_id = last.id + 1 + w.key;

-- A row: the id that the first one gets, and the ids of those that are written, unless all are.
SELECT last.id + 1,
       CASE WHEN (SELECT count(*) FROM queue_unique_jobs WHERE job_id > last.id) < json_array_length($8)
            THEN (SELECT json_group_array(job_id) FROM queue_unique_jobs WHERE job_id > last.id) END
FROM (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last;

-- Delays: see `insert_one_later`.
WITH delays AS MATERIALIZED (SELECT key, iif(value > 0, (value + 2999) / 1000, 0) AS ms FROM json_each($10)),
    times AS MATERIALIZED (SELECT key, (value + 999) / 1000 AS ms FROM json_each($11)),
    metas AS MATERIALIZED (SELECT key, value FROM json_each($12))
INSERT INTO queue_jobs (id, kind, queue, priority, max_retries, features, args, run_at, enqueued_at, meta)
SELECT n.job_id, $1, $2, $3, $4, $5, w.value,
       CASE WHEN $11 IS NOT NULL THEN (SELECT ms FROM times WHERE times.key = w.key)
            WHEN $10 IS NOT NULL THEN clock.now + (SELECT ms FROM delays WHERE delays.key = w.key)
            ELSE clock.now END,
       clock.now, CASE WHEN $12 IS NOT NULL THEN (SELECT value FROM metas WHERE metas.key = w.key) END
FROM (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
CROSS JOIN json_each($9) AS w
CROSS JOIN queue_unique_jobs AS n ON n.job_id = last.id + 1 + w.key

-- name: lock
-- Inserts the missing keys. From here on, this transaction is the only writer. $1: a list of `{kind, key}`.
INSERT INTO queue_unique_keys (kind, unique_key, job_id)
SELECT value ->> 'kind', value ->> 'key', 0 FROM json_each($1) WHERE true ON CONFLICT DO NOTHING

-- name: holders
-- Who has these keys. $1: a list of `{place, kind, key}`.
SELECT w.value ->> 'place', k.job_id, iif(k.held_until = 'start', k.fence, NULL),
       (SELECT iif(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       1, coalesce(k.free_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0)
FROM json_each($1) AS w
CROSS JOIN queue_unique_keys AS k ON k.kind = w.value ->> 'kind' AND k.unique_key = w.value ->> 'key'

-- name: give
-- Gives keys to jobs that are sent back. $1: a list of `{kind, key, job_id, until, fence}`.
UPDATE queue_unique_keys AS k SET job_id = w.value ->> 'job_id', held_until = w.value ->> 'until',
    fence = w.value ->> 'fence', free_at = iif(k.job_id = w.value ->> 'job_id', k.free_at, NULL)
FROM json_each($1) AS w
WHERE k.kind = w.value ->> 'kind' AND k.unique_key = w.value ->> 'key'

-- name: replace
-- Gives a waiting job other values, which begin with no attempt. Without a due time, it is due at once, and keeps its
-- place if it is due. $1: a list
-- of `{id, fence, queue, priority, max_retries, args, meta, delay_us, run_at_us, at_most_us}`; fence: NULL for any.
UPDATE queue_jobs AS j SET queue = w.value ->> 'queue', priority = w.value ->> 'priority',
    max_retries = w.value ->> 'max_retries', args = w.value ->> 'args', meta = w.value ->> 'meta', attempt = 0,
    run_at = min(coalesce((w.value ->> 'run_at_us' + 999) / 1000,
                          clock.now + (w.value ->> 'delay_us' + 2999) / 1000,
                          min(j.run_at, clock.now)),
                 coalesce(j.enqueued_at + (w.value ->> 'at_most_us' + 999) / 1000, 9223372036854775807))
FROM json_each($1) AS w CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE j.id = w.value ->> 'id' AND j.worker_id = 0
  AND (w.value ->> 'fence' IS NULL OR j.fence = w.value ->> 'fence')

-- name: noted
-- The keys of dead letters.
SELECT n.job_id, n.kind, n.unique_key, n.held_until, j.fence
FROM json_each($1) AS w CROSS JOIN queue_unique_jobs AS n ON n.job_id = w.value
CROSS JOIN queue_dead AS j ON j.id = w.value

-- name: over
-- Which jobs are nowhere any more. $1: the last job of the round before; $2: how many to look at.
SELECT n.job_id,
       NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_unique_keys AS k WHERE k.kind = n.kind AND k.unique_key = n.unique_key
           AND k.job_id = n.job_id AND k.free_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
FROM (SELECT * FROM queue_unique_jobs WHERE job_id > $1 ORDER BY job_id LIMIT +$2) AS n
ORDER BY n.job_id

-- name: sweep
-- step: all
-- Removes the keys that these jobs have. They are nowhere any more. A key whose time is not over stays.
DELETE FROM queue_unique_keys WHERE (kind, unique_key, job_id) IN (
    SELECT kind, unique_key, job_id FROM queue_unique_jobs WHERE job_id IN (SELECT value FROM json_each($1)))
  AND (free_at IS NULL OR free_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))

-- step: all
-- What was noted of them, unless their key is still there.
DELETE FROM queue_unique_jobs AS n WHERE n.job_id IN (SELECT value FROM json_each($1)) AND NOT EXISTS (
    SELECT 1 FROM queue_unique_keys AS k
    WHERE k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id)
