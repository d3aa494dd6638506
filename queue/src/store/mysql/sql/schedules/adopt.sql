-- Schedules whose next tick is to be computed count from now on, in a test's time. $1: microseconds that the test is
-- ahead of the clock
UPDATE queue_schedules SET changed_at = UTC_TIMESTAMP(6) + INTERVAL $1 MICROSECOND WHERE next_at = '1970-01-01'
