-- As preview.sql, and of the rows due exactly at the end time those below an id. (They have a branch of their own: for
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
