-- Inserts jobs that differ only in their arguments, in order. json_each gives each element as text, quoted or not. The
-- clock is read once, not twice per row.
INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at, enqueued_at)
SELECT $1, $2, $3, $4, value, now, now
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock CROSS JOIN json_each($5)
