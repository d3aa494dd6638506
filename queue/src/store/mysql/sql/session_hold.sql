-- Takes a worker's liveness lock. Lock names are per server, not per database, and at most 64 characters.
SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_workers'), 224), 32), '_', $1), 0)
