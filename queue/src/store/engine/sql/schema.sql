SELECT MAX(version), MAX(compatible_since), NULL FROM queue_migrations
