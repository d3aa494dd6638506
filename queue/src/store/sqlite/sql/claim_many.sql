-- As claim.sql, for several asks and for newest-first ones. $2: `{kind: max_retries}`.
UPDATE queue_jobs
SET worker_id = $1, fence = fence % 1000000000 + 1, attempt = min(attempt + 1, 1000000000), cancel_requested_at = NULL,
    claimed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    max_retries = coalesce(max_retries, (SELECT r.value FROM json_each($2) AS r WHERE r.key = kind))
WHERE EXISTS (SELECT 1 FROM queue_workers AS w CROSS JOIN queue_heartbeats AS b ON b.worker_id = w.id
              WHERE w.id = $1 AND w.stopped_at IS NULL
                AND b.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
  AND id IN (/* lanes */)
RETURNING id, fence, attempt, max_retries, run_at * 1000, enqueued_at * 1000, octet_length(args),
          CASE WHEN octet_length(args) <= $3 THEN args END, losses, kind, queue, priority
