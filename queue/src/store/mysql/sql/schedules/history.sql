-- The ticks of a schedule, the latest first. $1: id, $2: before this time, $3: at most so many
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', tick_at), job_id, outcome, skipped, note,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)
FROM queue_ticks
WHERE schedule_id = $1 AND tick_at < TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $2 MICROSECOND
ORDER BY tick_at DESC LIMIT $3
