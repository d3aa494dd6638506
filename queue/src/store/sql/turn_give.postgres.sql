SELECT pg_advisory_unlock('queue_jobs'::regclass::oid::integer, -1)
