-- The ticks of a schedule between two times that are decided. $1: schedule, $2: the first time, $3: the last time
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', tick_at) FROM queue_ticks
WHERE schedule_id = $1 AND tick_at >= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $2 MICROSECOND
  AND tick_at <= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL $3 MICROSECOND
