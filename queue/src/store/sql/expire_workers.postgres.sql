-- Rescuers that come at the same time do not wait for each other.
UPDATE queue_workers SET stopped_at = now()
WHERE id = ANY (ARRAY(
    SELECT id FROM queue_workers WHERE stopped_at IS NULL AND expires_at < now() ORDER BY id FOR UPDATE SKIP LOCKED))
