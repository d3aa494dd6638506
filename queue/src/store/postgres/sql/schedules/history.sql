-- The ticks of a schedule, the latest first; a row of NULLs if it has none.
-- $1: name, $2: before this time, $3: the most rows
SELECT tick_at, job_id, outcome, skipped, note, at FROM queue_schedules AS s
LEFT JOIN queue_ticks AS t ON t.schedule_id = s.id AND t.tick_at < timestamptz 'epoch' + $2 * interval '1 microsecond'
WHERE s.name = $1
ORDER BY t.tick_at DESC LIMIT $3
