-- Heartbeats of workers that stopped by themselves. A worker that was declared lost has none left.
DELETE FROM queue_heartbeats WHERE worker_id IN (SELECT id FROM queue_workers WHERE stopped_at IS NOT NULL)
