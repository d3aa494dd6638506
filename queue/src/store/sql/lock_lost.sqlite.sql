-- Those that are still held by the lost worker, and what becomes of each.
SELECT j.id, CASE WHEN j.attempt > j.max_retries THEN 'dead' WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
                  ELSE 'ready' END
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
WHERE j.worker_id = d.value ->> 'worker_id'
  AND NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = j.worker_id AND w.stopped_at IS NULL)
