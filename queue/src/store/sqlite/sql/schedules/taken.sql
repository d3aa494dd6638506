-- The ticks of a schedule between two times that are decided. $1: schedule, $2: the first time, $3: the last time
SELECT tick_at * 1000 FROM queue_ticks WHERE schedule_id = $1 AND tick_at >= $2 / 1000 AND tick_at <= $3 / 1000
