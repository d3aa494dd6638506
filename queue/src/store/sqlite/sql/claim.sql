-- Claims rows of one ask, the most common case. It ends with the eighth row of long arguments (more than 16 KiB),
-- because a claim rewrites whole rows. The fence wraps and the attempt is capped: a row edited to the maximum must not
-- fail the claim of other rows.
UPDATE queue_jobs
SET worker_id = $1, fence = fence % 1000000000 + 1, attempt = min(attempt + 1, 1000000000), cancel_requested_at = NULL,
    claimed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    max_retries = coalesce(max_retries, $8)
WHERE id IN (
    SELECT id FROM queue_jobs INDEXED BY queue_jobs_waiting
    WHERE worker_id = 0 AND kind = $2 AND queue = $3 AND priority = $4
      AND run_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
      AND (run_at, id) > (coalesce($5 / 1000, -9223372036854775808), $6)
      AND (run_at, id) <= (
          SELECT run_at, id FROM (
              SELECT run_at, id FROM queue_jobs INDEXED BY queue_jobs_long
              WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384 AND kind = $2 AND queue = $3 AND priority = $4
                AND (run_at, id) > (coalesce($5 / 1000, -9223372036854775808), $6)
              ORDER BY run_at, id LIMIT 1 OFFSET 7)
          UNION ALL SELECT 9223372036854775807, 0 ORDER BY 1 LIMIT 1)
      AND EXISTS (SELECT 1 FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
                  WHERE w.id = $1 AND w.stopped_at IS NULL
                    AND b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
      AND NOT EXISTS (SELECT 1 FROM queue_paused AS p WHERE p.queue = $3)
    ORDER BY run_at, id
    LIMIT +$7)
RETURNING id, fence, attempt, max_retries, run_at * 1000, enqueued_at * 1000, octet_length(args),
          CASE WHEN octet_length(args) <= $9 THEN args END, losses
