-- This session holds no other lock.
SELECT RELEASE_ALL_LOCKS()
