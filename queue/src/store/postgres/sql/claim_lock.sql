-- Takes the claim lock. The timeout is for this statement only. Key -1 is free: workers use keys from 0 on. Locks are
-- counted, so all are released first: a failed statement may have left one.
SELECT 1, pg_advisory_unlock_all(), set_config('lock_timeout', '1s', true),
       pg_advisory_lock('queue_jobs'::regclass::oid::integer, -1)
