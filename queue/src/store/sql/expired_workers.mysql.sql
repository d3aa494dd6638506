-- Rescuers that come at the same time do not wait for each other.
SELECT id FROM queue_workers WHERE stopped_at IS NULL AND expires_at < UTC_TIMESTAMP(6) ORDER BY id FOR UPDATE SKIP LOCKED
