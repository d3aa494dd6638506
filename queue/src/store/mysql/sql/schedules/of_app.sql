-- Locks the schedules of an application, and those with these names. Columns: id, and whether a live
-- worker belongs to its application. $1: application, $2: names
SELECT s.id, EXISTS (SELECT 1 FROM queue_schedulers AS o
                     JOIN queue_workers AS w ON w.id = o.worker_id AND w.stopped_at IS NULL
                     WHERE o.app = s.app)
FROM queue_schedules AS s
WHERE s.app = $1 OR JSON_CONTAINS($2, JSON_QUOTE(s.name))
ORDER BY s.id
FOR UPDATE
