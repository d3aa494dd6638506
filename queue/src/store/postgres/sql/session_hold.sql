SELECT pg_try_advisory_lock('queue_workers'::regclass::oid::integer, ($1 % 2147483648)::integer)
