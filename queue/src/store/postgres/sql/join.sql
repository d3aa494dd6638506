WITH worker AS (
    INSERT INTO queue_workers (host, pid, concurrency, queues, kinds) VALUES ($1, $2, $3, $4::json, $5::json)
    RETURNING id
), beat AS (
    INSERT INTO queue_heartbeats (worker_id, expires_at) SELECT id, now() + $6 * interval '1 microsecond' FROM worker
)
SELECT id FROM worker
