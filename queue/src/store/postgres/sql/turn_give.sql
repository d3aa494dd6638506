-- This session has no other.
SELECT pg_advisory_unlock_all()
