-- Locks jobs that wait, so that they start after this transaction. A job that runs must not stay locked: its end would
-- wait. The server unlocks a row that does not match, but not if it had to wait for the lock, nor the last one that it
-- found by `j.id = w.id`.
SELECT j.id, j.worker_id, j.fence
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id <= w.id AND j.id >= w.id
WHERE j.worker_id = 0
LIMIT 18446744073709551615
FOR UPDATE SKIP LOCKED
