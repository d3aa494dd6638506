-- Locks those of these finished jobs that use features: another worker may be about to remove the same rows. (MySQL
-- rejects FOR UPDATE with a bare JSON_TABLE.)
SELECT h.id, h.features FROM (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS b) AS ids
STRAIGHT_JOIN queue_history AS h FORCE INDEX (PRIMARY) ON h.id = ids.id
WHERE h.features <> 0
FOR UPDATE
