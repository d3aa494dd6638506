-- The keys of unique jobs.

-- name: look
-- Who has these keys of a kind, in the caller's snapshot. (The limit: a session may have one, sql_select_limit.)
SELECT k.unique_key, k.job_id, IF(k.held_until = 'start', k.fence, NULL),
       (SELECT IF(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       TRUE, COALESCE(k.free_at > UTC_TIMESTAMP(6), FALSE)
FROM queue_unique_keys AS k FORCE INDEX (PRIMARY)
WHERE k.kind = ? AND k.unique_key IN (/* places */)
LIMIT 18446744073709551615

-- name: holders
-- Who has these keys of a kind. The rows of the keys are read as they are now. A subquery reads the caller's snapshot,
-- and locks nothing.
SELECT k.unique_key, k.job_id, IF(k.held_until = 'start', k.fence, NULL),
       (SELECT IF(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       k.job_id = 0 OR EXISTS (SELECT 1 FROM queue_unique_keys AS s
           WHERE s.kind = k.kind AND s.unique_key = k.unique_key AND s.job_id = k.job_id AND s.fence = k.fence),
       COALESCE(k.free_at > UTC_TIMESTAMP(6), FALSE)
FROM queue_unique_keys AS k FORCE INDEX (PRIMARY)
WHERE k.kind = ? AND k.unique_key IN (/* places */)
LIMIT 18446744073709551615
FOR UPDATE

-- name: hold
-- Locks jobs that wait, so that they start after this transaction. A job that runs must not stay locked: its end would
-- wait. The server unlocks a row that does not match, but not if it had to wait for the lock, nor the last one that it
-- found by `j.id = w.id`.
SELECT j.id, j.worker_id, j.fence
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id <= w.id AND j.id >= w.id
WHERE j.worker_id = 0
LIMIT 18446744073709551615
FOR UPDATE SKIP LOCKED

-- name: hold_begun
-- Locks jobs, whether they wait or run.
SELECT j.id, j.worker_id, j.fence
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = w.id
LIMIT 18446744073709551615
FOR UPDATE

-- name: replace
-- Gives a waiting job other values, which begin with no attempt. Without a due time, it is due at once, and keeps its
-- place if it is due. $1: a list
-- of `{id, fence, queue, priority, max_retries, args, meta, delay_us, run_at_us, at_most_us}`; fence: NULL for any.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', fence INT PATH '$.fence',
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.queue',
    priority SMALLINT PATH '$.priority', max_retries INT PATH '$.max_retries',
    args LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.args',
    meta TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.meta',
    delay_us BIGINT PATH '$.delay_us', run_at_us BIGINT PATH '$.run_at_us', at_most_us BIGINT PATH '$.at_most_us')) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = w.id
SET j.queue = w.queue, j.priority = w.priority, j.max_retries = w.max_retries, j.args = w.args, j.meta = w.meta,
    j.attempt = 0,
    j.run_at = LEAST(COALESCE(TIMESTAMP('1970-01-01') + INTERVAL w.run_at_us MICROSECOND,
                              UTC_TIMESTAMP(6) + INTERVAL w.delay_us MICROSECOND,
                              LEAST(j.run_at, UTC_TIMESTAMP(6))),
                     COALESCE(j.enqueued_at + INTERVAL w.at_most_us MICROSECOND, '9999-12-31'))
WHERE j.worker_id = 0 AND (w.fence IS NULL OR j.fence = w.fence)

-- name: noted
-- The keys of dead letters, which are locked.
SELECT n.job_id, n.kind, n.unique_key, n.held_until, j.fence
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_dead AS j FORCE INDEX (PRIMARY) ON j.id = w.id

-- name: over
-- Which jobs are nowhere any more. $1: the last job of the round before; $2: how many to look at.
SELECT n.job_id,
       NOT EXISTS (SELECT 1 FROM queue_jobs AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_history AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_dead AS j WHERE j.id = n.job_id)
       AND NOT EXISTS (SELECT 1 FROM queue_unique_keys AS k WHERE k.kind = n.kind AND k.unique_key = n.unique_key
           AND k.job_id = n.job_id AND k.free_at > UTC_TIMESTAMP(6))
FROM (SELECT * FROM queue_unique_jobs WHERE job_id > $1 ORDER BY job_id LIMIT $2) AS n
ORDER BY n.job_id

-- name: sweep
-- step: find
-- Locks the keys that these jobs have. They are nowhere any more. A key whose time is not over stays. What others lock
-- is left for the next time: a sweep waits for nobody.
SELECT n.job_id FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = n.kind AND k.unique_key = n.unique_key
WHERE k.job_id = n.job_id AND (k.free_at IS NULL OR k.free_at <= UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED

-- step: found
DELETE k FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = n.kind AND k.unique_key = n.unique_key
WHERE k.job_id = n.job_id

-- step: find
-- What was noted of them, unless their key is still there. No locks of keys.
SELECT n.job_id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
WHERE NOT EXISTS (
    SELECT 1 FROM queue_unique_keys AS k
    WHERE k.kind = n.kind AND k.unique_key = n.unique_key AND k.job_id = n.job_id)

-- step: found
DELETE n FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS w
STRAIGHT_JOIN queue_unique_jobs AS n FORCE INDEX (PRIMARY) ON n.job_id = w.id
