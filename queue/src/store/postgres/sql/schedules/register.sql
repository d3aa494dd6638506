-- step: all
DELETE FROM queue_schedulers AS o
WHERE NOT EXISTS (SELECT FROM queue_workers AS w WHERE w.id = o.worker_id AND w.stopped_at IS NULL)

-- step: all
-- $1: worker, $2: application, $3: when its process joined first (NULL: now)
INSERT INTO queue_schedulers (worker_id, app, since)
VALUES ($1, $2, coalesce(timestamptz 'epoch' + $3 * interval '1 microsecond', clock_timestamp()))
ON CONFLICT DO NOTHING

-- step: all
INSERT INTO queue_apps (app) VALUES ($2) ON CONFLICT DO NOTHING
