-- This session holds no other lock.
SELECT pg_advisory_unlock_all()
