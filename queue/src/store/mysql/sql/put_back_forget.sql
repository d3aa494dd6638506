-- Of the attempts of a job that do not count (snoozed, released), keeps only the last 100 to 200.
DELETE a
FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', forget INT PATH '$.forget')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
STRAIGHT_JOIN queue_attempts AS a FORCE INDEX (PRIMARY) ON a.job_id = j.id AND a.fence <= d.forget
WHERE j.worker_id = $1 AND j.fence = d.fence AND a.outcome IN ('snoozed', 'released')
