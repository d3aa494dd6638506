-- That claims are settled is believed in the session only that answered the heartbeat before: a server that has failed may
-- have lost commits that it had acknowledged.
DELETE c
FROM JSON_TABLE($5, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_claims AS c FORCE INDEX (PRIMARY) ON c.id = d.id
WHERE c.worker_id = $1 AND CONNECTION_ID() = $7
