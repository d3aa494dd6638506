-- The ticks of a schedule, the latest first. $1: id, $2: before this time, $3: at most so many
SELECT tick_at * 1000, job_id, outcome, skipped, note, at * 1000 FROM queue_ticks
WHERE schedule_id = $1 AND tick_at < $2 / 1000
ORDER BY tick_at DESC LIMIT +$3
