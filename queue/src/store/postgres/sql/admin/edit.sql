-- step: find
UPDATE queue_dead AS j SET args = b.args::json FROM json_to_recordset($1::json) AS b (id bigint, args text)
WHERE j.id = b.id
RETURNING j.id

-- step: find
UPDATE queue_jobs AS j SET args = b.args::json FROM json_to_recordset($1::json) AS b (id bigint, args text)
WHERE j.id = b.id AND j.worker_id = 0
RETURNING j.id
