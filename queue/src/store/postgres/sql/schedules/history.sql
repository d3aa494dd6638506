-- The ticks of a schedule, the latest first. $1: id, $2: before this time, $3: at most so many
SELECT tick_at, job_id, outcome, skipped, note, at FROM queue_ticks
WHERE schedule_id = $1 AND tick_at < timestamptz 'epoch' + $2 * interval '1 microsecond'
ORDER BY tick_at DESC LIMIT $3
