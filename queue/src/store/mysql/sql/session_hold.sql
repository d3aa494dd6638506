-- Names of locks are the server's, not the database's, and have at most 64 characters.
SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_', $1), 0)
