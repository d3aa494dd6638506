-- Deletes the claim records that the worker reports as settled, but only in the session that answered its last
-- heartbeat: a server that has failed may have lost commits that it had acknowledged.
DELETE c
FROM JSON_TABLE($5, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = d.id
WHERE c.worker_id = $1 AND CONNECTION_ID() = $7
