-- Notes the keys of new jobs. $1: a list of `{kind, key, job_id, until}`.
INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT job_id, kind, key, until FROM json_to_recordset($1::json) AS w (kind text, key text, job_id bigint, until text)
