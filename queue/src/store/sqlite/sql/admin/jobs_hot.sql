-- A page of waiting and running jobs, in primary key order. NULL for kind, queue or state matches any.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       -- any integer may be stored: clamped to years 1 to 9999
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, nullif(worker_id, 0),
       cancel_requested_at IS NOT NULL, NULL
FROM (SELECT *, CASE WHEN worker_id <> 0 THEN 'running'
                     WHEN run_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 'scheduled'
                     ELSE 'ready' END AS state
      FROM queue_jobs) AS j
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
ORDER BY id LIMIT +$5
