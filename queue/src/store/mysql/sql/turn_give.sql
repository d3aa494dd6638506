-- This session has no other.
SELECT RELEASE_ALL_LOCKS()
