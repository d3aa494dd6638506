-- Notes what happened at ticks, all at one time.
INSERT INTO queue_ticks (schedule_id, tick_at, job_id, outcome, skipped, note, at)
SELECT id, timestamptz 'epoch' + tick_us * interval '1 microsecond', job_id, outcome, skipped, note,
       statement_timestamp()
FROM json_to_recordset($1::json) AS t (
    id bigint, tick_us bigint, job_id bigint, outcome text, skipped integer, note text)
