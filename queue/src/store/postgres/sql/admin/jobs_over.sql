-- A page of completed and cancelled jobs, in primary key order. NULL matches any.
SELECT id, kind, queue, state, priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       started_at,
       finished_at, nullif(worker_id, 0), false, error
FROM queue_history
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR state = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR position($7 IN error) > 0)
  AND ($8 IS NULL OR enqueued_at >= timestamptz '1970-01-01Z' + $8 * interval '1 microsecond')
  AND ($9 IS NULL OR enqueued_at < timestamptz '1970-01-01Z' + $9 * interval '1 microsecond')
  AND ($10 IS NULL OR NULL::timestamptz >= timestamptz '1970-01-01Z' + $10 * interval '1 microsecond')
  AND ($11 IS NULL OR NULL::timestamptz < timestamptz '1970-01-01Z' + $11 * interval '1 microsecond')
  AND ($12 = 0 OR false)
ORDER BY id LIMIT $5
