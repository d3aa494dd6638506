-- Locks the schedules that are still due. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
-- $1: ids, $2: microseconds that a test is ahead of the clock
SELECT s.id
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
WHERE s.next_at <= UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND
FOR UPDATE SKIP LOCKED
