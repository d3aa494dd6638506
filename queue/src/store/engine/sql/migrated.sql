INSERT INTO queue_migrations (version, name, compatible_since) VALUES ($1, $2, $3)
