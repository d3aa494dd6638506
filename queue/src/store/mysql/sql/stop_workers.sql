UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d
STRAIGHT_JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = d.id
STRAIGHT_JOIN queue_heartbeats AS b FORCE INDEX (PRIMARY) ON b.worker_id = d.id
SET w.stopped_at = UTC_TIMESTAMP(6), w.heartbeat_at = b.heartbeat_at
