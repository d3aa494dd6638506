-- The limit is this statement's only. Workers have numbers from 0 on under this name.
SELECT 1, set_config('lock_timeout', '1s', true), pg_advisory_lock('queue_jobs'::regclass::oid::integer, -1)
