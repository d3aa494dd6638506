-- Sets another due time for waiting jobs.
UPDATE queue_jobs AS j SET run_at = timestamptz '1970-01-01Z' + b.run_at * interval '1 microsecond'
FROM json_to_recordset($1::json) AS b (id bigint, run_at bigint)
WHERE j.id = b.id AND j.worker_id = 0
RETURNING j.id
