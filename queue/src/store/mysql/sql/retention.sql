-- What removes finished jobs.

-- name: over
-- History rows whose retention has passed. No lock: a finished row never changes, it is only removed. A locking read
-- would also look up each row by its key, and check each dead entry for locks.
SELECT id
FROM queue_history FORCE INDEX (queue_history_finished)
WHERE finished_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
ORDER BY finished_at
LIMIT $2

-- name: purge
-- step: runs
-- Deletes ranges of ids. Each last id is a separate condition: a range read also locks the row behind its end.
DELETE h
FROM queue_history AS h FORCE INDEX (PRIMARY)
WHERE h.id BETWEEN $2 AND $3 - 1 OR h.id = $3
   OR h.id BETWEEN $4 AND $5 - 1 OR h.id = $5
   OR h.id BETWEEN $6 AND $7 - 1 OR h.id = $7
   OR h.id BETWEEN $8 AND $9 - 1 OR h.id = $9
   OR h.id BETWEEN $10 AND $11 - 1 OR h.id = $11
   OR h.id BETWEEN $12 AND $13 - 1 OR h.id = $13
   OR h.id BETWEEN $14 AND $15 - 1 OR h.id = $15
   OR h.id BETWEEN $16 AND $17 - 1 OR h.id = $17

-- step: scattered
DELETE h FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_history AS h FORCE INDEX (PRIMARY) ON h.id = d.id

-- step: runs
DELETE a
FROM queue_attempts AS a FORCE INDEX (PRIMARY)
WHERE a.job_id BETWEEN $2 AND $3
   OR a.job_id BETWEEN $4 AND $5
   OR a.job_id BETWEEN $6 AND $7
   OR a.job_id BETWEEN $8 AND $9
   OR a.job_id BETWEEN $10 AND $11
   OR a.job_id BETWEEN $12 AND $13
   OR a.job_id BETWEEN $14 AND $15
   OR a.job_id BETWEEN $16 AND $17

-- step: scattered
DELETE a FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = d.id
