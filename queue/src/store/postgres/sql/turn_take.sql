-- The limit is this statement's only. Workers have numbers from 0 on under this name. Locks are counted: one that was given
-- while its statement failed must not stay.
SELECT 1, pg_advisory_unlock_all(), set_config('lock_timeout', '1s', true),
       pg_advisory_lock('queue_jobs'::regclass::oid::integer, -1)
