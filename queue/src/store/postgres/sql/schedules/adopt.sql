-- Schedules whose next tick is to be computed count from now on, in a test's time. $1: microseconds that the test is
-- ahead of the clock
UPDATE queue_schedules SET changed_at = now() + $1 * interval '1 microsecond' WHERE next_at = timestamptz 'epoch'
