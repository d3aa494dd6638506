-- Locks that the server releases with a connection: they show that a worker lives, or that it claims.

-- name: run
-- Identifies the server run: when the server started, or last lost all sessions. If one of its processes crashes, it
-- ends all sessions and resets its statistics.
SELECT (extract(epoch FROM greatest(pg_postmaster_start_time(), stats_reset)) * 1000000)::bigint FROM pg_stat_bgwriter

-- name: hold
SELECT pg_try_advisory_lock('queue_workers'::regclass::oid::integer, ($1 % 2147483648)::integer)

-- name: busy
SELECT pg_try_advisory_lock('queue_jobs'::regclass::oid::integer, ($1 % 2147483648)::integer)

-- name: idle
SELECT pg_advisory_unlock('queue_jobs'::regclass::oid::integer, ($1 % 2147483648)::integer)

-- name: claim_lock
-- Takes the claim lock. The timeout is for this statement only. Key -1 is free: workers use keys from 0 on. Locks are
-- counted, so all are released first: a failed statement may have left one.
SELECT 1, pg_advisory_unlock_all(), set_config('lock_timeout', '1s', true),
       pg_advisory_lock('queue_jobs'::regclass::oid::integer, -1)

-- name: claim_unlock
-- This session holds no other lock.
SELECT pg_advisory_unlock_all()
