-- Locks an application. Columns: digest, and whether this worker is its latest live one. (Rows read by a subquery are
-- not locked.) $1: application, $2: worker
SELECT a.digest,
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS m
                   JOIN queue_schedulers AS o ON o.app = m.app
                       AND (o.since > m.since OR (o.since = m.since AND o.worker_id > m.worker_id))
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE m.worker_id = $2)
FROM queue_apps AS a
WHERE a.app = $1
FOR UPDATE
