-- The ticks of a schedule between two times that are decided. $1: schedule, $2: the first time, $3: the last time
SELECT tick_at FROM queue_ticks
WHERE schedule_id = $1 AND tick_at >= timestamptz 'epoch' + $2 * interval '1 microsecond'
  AND tick_at <= timestamptz 'epoch' + $3 * interval '1 microsecond'
