-- The schedules of an application, and those with these names. Columns: id, and whether a live worker
-- belongs to its application. $1: application, $2: names
SELECT s.id, EXISTS (SELECT 1 FROM queue_schedulers AS o
                     JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                     WHERE o.app = s.app)
FROM queue_schedules AS s
WHERE s.app = $1 OR s.name IN (SELECT value FROM json_each($2))
ORDER BY s.id
