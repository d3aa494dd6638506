-- Locks the waiting ones among these jobs, by primary key, in the order given: MySQL does not say which
-- rows an UPDATE or DELETE met. (FOR UPDATE beside a bare JSON_TABLE is an error there.)
SELECT j.id FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = ids.id WHERE j.worker_id = 0
FOR UPDATE
