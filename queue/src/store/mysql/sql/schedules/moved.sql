-- Moves locked schedules to their next ticks.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', next_us BIGINT PATH '$.next_us', last_us BIGINT PATH '$.last_us',
    job_id BIGINT PATH '$.job_id', error TEXT CHARACTER SET utf8mb4 PATH '$.error')) AS m
STRAIGHT_JOIN queue_schedules AS s FORCE INDEX (PRIMARY) ON s.id = m.id
SET s.next_at = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL m.next_us MICROSECOND,
    s.last_at = COALESCE(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL m.last_us MICROSECOND, s.last_at),
    s.last_job_id = COALESCE(m.job_id, s.last_job_id), s.error = m.error
