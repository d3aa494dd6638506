-- Which jobs of the batch are still this claim's; locked, so that the statements that follow agree. (MySQL refuses to lock
-- beside a table function that is not wrapped.)
SELECT j.id
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', fence INT PATH '$[1]')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE
