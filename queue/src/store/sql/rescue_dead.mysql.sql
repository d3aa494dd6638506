INSERT INTO queue_dead (id, kind, queue, args, priority, max_retries, attempt, lease, worker_id, enqueued_at, run_at,
                        started_at, finished_at, error)
SELECT j.id, j.kind, j.queue, j.args, j.priority, j.max_retries, j.attempt, j.lease, j.worker_id, j.enqueued_at,
       j.run_at, j.claimed_at, UTC_TIMESTAMP(6),
       CONCAT('the worker', COALESCE(CONCAT(' (', w.host, ':', w.pid, ')'), ''), ' running this job was lost',
              COALESCE(CONCAT(' (no heartbeat since ', DATE_FORMAT(w.heartbeat_at, '%Y-%m-%d %H:%i:%s'), ' UTC)'), ''))
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
LEFT JOIN queue_workers AS w FORCE INDEX (PRIMARY) ON w.id = j.worker_id
WHERE d.fate = 'dead'
