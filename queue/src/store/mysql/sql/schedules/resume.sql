-- While it was paused, nothing was missed. $1: ids
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
SET s.paused_at = NULL, s.changed_at = UTC_TIMESTAMP(6), s.next_at = '1970-01-01'
WHERE s.paused_at IS NOT NULL
