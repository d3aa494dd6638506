-- Takes the claim lock; waits up to 1 s. Lock names are per server, not per database, and at most 64 characters.
SELECT GET_LOCK(CONCAT('queue_', LEFT(SHA2(CONCAT(COALESCE(DATABASE(), ''), '.queue_jobs'), 224), 32)), 1)
