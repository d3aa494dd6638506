WITH batch AS MATERIALIZED (
    SELECT value ->> 'id' AS id, value ->> 'lease' AS lease
    FROM json_each($2)
)
DELETE FROM queue_jobs
WHERE id IN (SELECT id FROM batch) AND +worker_id = $1 AND (id, lease) IN (SELECT id, lease FROM batch)
  AND cancel_requested_at IS NOT NULL
RETURNING id
