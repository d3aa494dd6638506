UPDATE JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', lease INT PATH '$.lease', beside INT PATH '$.beside')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.started = j.lease, j.beside = d.beside
WHERE j.worker_id = $1 AND j.lease = d.lease
