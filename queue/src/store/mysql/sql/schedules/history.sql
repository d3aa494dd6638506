-- The ticks of a schedule, the latest first; a row of NULLs if it has none.
-- $1: name, $2: before this time, $3: the most rows
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', tick_at), job_id, outcome, skipped, note,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)
FROM queue_schedules AS s
LEFT JOIN queue_ticks AS t ON t.schedule_id = s.id
    AND t.tick_at < TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $2 MICROSECOND
WHERE s.name = $1
ORDER BY t.tick_at DESC LIMIT $3
