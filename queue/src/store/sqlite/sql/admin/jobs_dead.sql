-- A page of dead letters, in primary key order. NULL matches any.
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       started_at * 1000,
       finished_at * 1000, nullif(worker_id, 0), 0, error
FROM queue_dead
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'dead' = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR instr(error, $7) > 0)
  AND ($8 IS NULL OR enqueued_at >= $8 / 1000)
  AND ($9 IS NULL OR enqueued_at < $9 / 1000)
  AND ($10 IS NULL OR finished_at >= $10 / 1000)
  AND ($11 IS NULL OR finished_at < $11 / 1000)
  AND ($12 = 0 OR 0)
ORDER BY id LIMIT +$5
