-- Keeps every other writer out until the end of a transaction of the handler's, as any write does. See complete.sql.
UPDATE queue_jobs SET fence = fence
WHERE id = $1 AND +worker_id = $2 AND fence = $3 AND enqueued_at = $4 / 1000
RETURNING id
