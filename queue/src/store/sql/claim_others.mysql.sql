-- Whether rows of the served kinds wait in another lane than this one: before it and behind it, never among what is left of the
-- rows taken from it. (As two conditions, because a pair that must be more is read from the begin of the kind.)
SELECT EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order) WHERE worker_id = 0 AND kind = $1 AND queue < $2)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order) WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority < $3)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order) WHERE worker_id = 0 AND kind = $1 AND queue = $2 AND priority > $3)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order) WHERE worker_id = 0 AND kind = $1 AND queue > $2)
    OR EXISTS (SELECT 1 FROM queue_jobs FORCE INDEX (queue_jobs_order) WHERE worker_id = 0 AND kind IN (/* kinds */))
