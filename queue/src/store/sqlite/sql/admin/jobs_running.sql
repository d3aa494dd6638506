-- A page of running jobs. They are few: the index of held rows and a sort are faster than a walk over all waiting rows.
SELECT id, kind, queue, 'running', priority, attempt, max_retries,
       max(-62135596800000, min(enqueued_at, 253402214400000)) * 1000,
       max(-62135596800000, min(run_at, 253402214400000)) * 1000,
       claimed_at * 1000, NULL, worker_id,
       cancel_requested_at IS NOT NULL, NULL
FROM queue_jobs INDEXED BY queue_jobs_held
WHERE worker_id <> 0 AND id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
ORDER BY id LIMIT +$4
