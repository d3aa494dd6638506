-- Moves locked schedules to their next ticks.
UPDATE queue_schedules AS s
SET next_at = timestamptz 'epoch' + m.next_us * interval '1 microsecond',
    last_at = coalesce(timestamptz 'epoch' + m.last_us * interval '1 microsecond', s.last_at),
    last_job_id = coalesce(m.job_id, s.last_job_id), error = m.error
FROM json_to_recordset($1::json) AS m (id bigint, next_us bigint, last_us bigint, job_id bigint, error text)
WHERE s.id = ANY (ARRAY(SELECT i.id FROM json_to_recordset($1::json) AS i (id bigint))) AND s.id = m.id
