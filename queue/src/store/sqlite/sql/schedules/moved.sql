-- Moves locked schedules to their next ticks.
UPDATE queue_schedules AS s
SET next_at = (m.value ->> 'next_us') / 1000, last_at = coalesce((m.value ->> 'last_us') / 1000, s.last_at),
    last_job_id = coalesce(m.value ->> 'job_id', s.last_job_id), error = m.value ->> 'error'
FROM json_each($1) AS m
WHERE s.id = m.value ->> 'id'
