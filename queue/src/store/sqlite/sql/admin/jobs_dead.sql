-- A page of dead letters, in primary key order. NULL for kind or queue matches any.
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error
FROM queue_dead
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
ORDER BY id LIMIT +$4
