-- Locks those that are still held by the lost worker, and says what becomes of each.
SELECT j.id, CASE WHEN j.attempt > j.max_retries THEN 'dead' WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
                  ELSE 'ready' END
FROM queue_jobs AS j
WHERE j.id = ANY (ARRAY(SELECT d.id FROM json_to_recordset($1::json) AS d (id bigint)))
  AND (j.id, j.worker_id) IN (SELECT d.id, d.worker_id FROM json_to_recordset($1::json) AS d (id bigint, worker_id bigint))
  AND NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = j.worker_id AND w.stopped_at IS NULL)
ORDER BY j.id
FOR UPDATE OF j SKIP LOCKED
