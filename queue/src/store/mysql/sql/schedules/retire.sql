UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = d.id
SET s.retired_at = UTC_TIMESTAMP(6), s.next_at = NULL
