-- Notes the keys of new jobs. $1: a list of `{kind, key, job_id, until}`.
INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT value ->> 'job_id', value ->> 'kind', value ->> 'key', value ->> 'until' FROM json_each($1)
