-- A page of dead letters, in primary key order. NULL matches any.
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at), NULLIF(worker_id, 0), 0, error
FROM queue_dead
WHERE id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3) AND ($4 IS NULL OR 'dead' = $4)
  AND ($6 IS NULL OR attempt >= $6) AND ($7 IS NULL OR LOCATE($7, error) > 0)
  AND ($8 IS NULL OR enqueued_at >= TIMESTAMPADD(MICROSECOND, $8, '1970-01-01'))
  AND ($9 IS NULL OR enqueued_at < TIMESTAMPADD(MICROSECOND, $9, '1970-01-01'))
  AND ($10 IS NULL OR finished_at >= TIMESTAMPADD(MICROSECOND, $10, '1970-01-01'))
  AND ($11 IS NULL OR finished_at < TIMESTAMPADD(MICROSECOND, $11, '1970-01-01'))
  AND ($12 = 0 OR 0)
ORDER BY id LIMIT $5
