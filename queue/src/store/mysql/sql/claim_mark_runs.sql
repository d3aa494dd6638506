-- Marks locked rows as claimed, by ranges of ids, if all asks have the same default for max_retries. Plain ranges are
-- enough: unlike the DELETE in finish.sql, an UPDATE does not wait for the row behind a range.
UPDATE queue_jobs AS j FORCE INDEX (PRIMARY)
SET j.worker_id = $1, j.fence = j.fence % 1000000000 + 1, j.attempt = LEAST(j.attempt + 1, 1000000000),
    j.claimed_at = UTC_TIMESTAMP(6), j.cancel_requested_at = NULL,
        j.max_retries = GREATEST(COALESCE(j.max_retries, $2), 0)
WHERE j.id BETWEEN $3 AND $4 OR j.id BETWEEN $5 AND $6 OR j.id BETWEEN $7 AND $8 OR j.id BETWEEN $9 AND $10
   OR j.id BETWEEN $11 AND $12 OR j.id BETWEEN $13 AND $14 OR j.id BETWEEN $15 AND $16 OR j.id BETWEEN $17 AND $18
