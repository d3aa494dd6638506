-- A page of completed and cancelled jobs, in primary key order. NULL for kind, queue or state matches any.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error
FROM queue_history
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
ORDER BY id LIMIT $5
