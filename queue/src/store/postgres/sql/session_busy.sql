SELECT pg_try_advisory_lock('queue_jobs'::regclass::oid::integer, ($1 % 2147483648)::integer)
