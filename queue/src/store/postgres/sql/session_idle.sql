SELECT pg_advisory_unlock('queue_jobs'::regclass::oid::integer, ($1 % 2147483648)::integer)
