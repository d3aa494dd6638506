-- Schedules whose next tick is to be computed count from now on, in a test's time. $1: microseconds that the test is
-- ahead of the clock
UPDATE queue_schedules
SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $1 / 1000
WHERE next_at = 0
