-- Whatever stands in the history under the lease that it has here.
DELETE FROM queue_jobs
WHERE id IN (SELECT CAST(key AS INTEGER) FROM json_each($2)) AND +worker_id = $1
  AND EXISTS (SELECT 1 FROM queue_history AS h WHERE h.id = queue_jobs.id AND h.lease = queue_jobs.lease)
