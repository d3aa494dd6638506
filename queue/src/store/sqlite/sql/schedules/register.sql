-- step: all
DELETE FROM queue_schedulers
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = queue_schedulers.worker_id AND w.stopped_at IS NULL)

-- step: all
-- $1: worker, $2: application, $3: when its process joined first (NULL: now)
INSERT INTO queue_schedulers (worker_id, app, since)
VALUES ($1, $2, coalesce($3 / 1000, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)))
ON CONFLICT DO NOTHING

-- step: all
INSERT INTO queue_apps (app) VALUES ($2) ON CONFLICT DO NOTHING
