-- Notes what happened at ticks.
INSERT INTO queue_ticks (schedule_id, tick_at, job_id, outcome, skipped, note)
SELECT value ->> 'id', (value ->> 'tick_us') / 1000, value ->> 'job_id', value ->> 'outcome', value ->> 'skipped',
       value ->> 'note'
FROM json_each($1)
