-- Columns: the digest of an application, and whether this worker is its latest live one. $1: application, $2: worker
SELECT a.digest,
       NOT EXISTS (SELECT 1 FROM queue_schedulers AS o
                   JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                   WHERE o.app = $1 AND (o.since, o.worker_id) > (SELECT m.since, m.worker_id FROM queue_schedulers AS m
                                                                  WHERE m.worker_id = $2))
FROM queue_apps AS a
WHERE a.app = $1
