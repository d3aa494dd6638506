-- Locks the waiting and running jobs among these, so that none can change from one to the other.
SELECT id, features FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
ORDER BY id FOR UPDATE
