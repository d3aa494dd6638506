DELETE FROM queue_heartbeats WHERE worker_id IN (SELECT value FROM json_each($1))
