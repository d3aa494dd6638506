-- Locks the completed and cancelled jobs among these jobs, by primary key, in the given order: MySQL does not report
-- which rows an UPDATE or DELETE changed. (It rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT j.id, j.features FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS b) AS ids
STRAIGHT_JOIN queue_history AS j FORCE INDEX (PRIMARY) ON j.id = ids.id
FOR UPDATE
