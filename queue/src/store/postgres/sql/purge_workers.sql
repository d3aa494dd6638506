DELETE FROM queue_workers WHERE stopped_at < now() - $1 * interval '1 microsecond'
