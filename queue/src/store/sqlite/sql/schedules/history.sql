-- The ticks of a schedule, the latest first; a row of NULLs if it has none.
-- $1: name, $2: before this time, $3: the most rows
SELECT tick_at * 1000, job_id, outcome, skipped, note, at * 1000 FROM queue_schedules AS s
LEFT JOIN queue_ticks AS t ON t.schedule_id = s.id AND t.tick_at < $2 / 1000
WHERE s.name = $1
ORDER BY t.tick_at DESC LIMIT +$3
