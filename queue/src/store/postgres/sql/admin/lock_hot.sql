-- Locks the waiting and running ones among these jobs: which of the two they are cannot change any more.
SELECT id FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset($1::json) AS b (id bigint)))
ORDER BY id FOR UPDATE
