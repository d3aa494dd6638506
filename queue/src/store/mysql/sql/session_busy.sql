SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32), '_', $1), 0)
