-- All are locked, and have the same retries where none are written. An UPDATE waits for no row that it does not change, so
-- the one behind a run need not be kept out, as in finish_delete_runs.sql.
UPDATE queue_jobs AS j FORCE INDEX (PRIMARY)
SET j.worker_id = $1, j.fence = j.fence % 1000000000 + 1, j.attempt = LEAST(j.attempt + 1, 1000000000),
    j.claimed_at = UTC_TIMESTAMP(6), j.cancel_requested_at = NULL, j.max_retries = GREATEST(COALESCE(j.max_retries, $2), 0)
WHERE j.id BETWEEN $3 AND $4 OR j.id BETWEEN $5 AND $6 OR j.id BETWEEN $7 AND $8 OR j.id BETWEEN $9 AND $10
   OR j.id BETWEEN $11 AND $12 OR j.id BETWEEN $13 AND $14 OR j.id BETWEEN $15 AND $16 OR j.id BETWEEN $17 AND $18
