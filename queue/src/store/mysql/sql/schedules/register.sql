-- step: all
DELETE o FROM queue_schedulers AS o
WHERE NOT EXISTS (SELECT 1 FROM queue_workers AS w WHERE w.id = o.worker_id AND w.stopped_at IS NULL)

-- step: all
-- $1: worker, $2: application, $3: when its process joined first (NULL: now)
INSERT INTO queue_schedulers (worker_id, app, since)
VALUES ($1, $2, COALESCE(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $3 MICROSECOND, UTC_TIMESTAMP(6)))
ON DUPLICATE KEY UPDATE app = app

-- step: all
INSERT INTO queue_apps (app) VALUES ($2) ON DUPLICATE KEY UPDATE app = app
