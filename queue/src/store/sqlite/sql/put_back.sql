-- Returns jobs to the queue. Delays: see insert_one_later.sql.
WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'fence' AS fence, value ->> 'delay_us' AS delay_us, value ->> 'uncount' AS uncount,
           value ->> 'outcome' AS outcome
    FROM json_each($2)
)
UPDATE queue_jobs
SET worker_id = 0, claimed_at = NULL, attempt = attempt - d.uncount, losses = iif(d.outcome = 'released', losses, 0),
    run_at = coalesce(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                      + iif(d.delay_us > 0, (d.delay_us + 2999) / 1000, d.delay_us), run_at)
FROM batch AS d
WHERE queue_jobs.id = d.id AND +queue_jobs.worker_id = $1 AND queue_jobs.fence = d.fence
  AND queue_jobs.cancel_requested_at IS NULL
RETURNING queue_jobs.id
