-- Jobs that differ in their arguments only, in order.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args)
SELECT $1, $2, $3, $4, args::json FROM unnest($5::text[]) AS n (args)
RETURNING id
