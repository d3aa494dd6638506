-- Jobs that differ in their arguments only, in order. A list of texts: what was serialized is what is stored.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
SELECT $1, $2, $3, $4, value FROM json_each($5)
