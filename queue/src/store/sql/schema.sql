SELECT MAX(version), MAX(compatible_since) FROM queue_migrations
