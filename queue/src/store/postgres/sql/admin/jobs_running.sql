-- A page of running jobs, found through the claim records: no walk over all waiting rows.
SELECT id, kind, queue, 'running', priority, attempt, max_retries,
       least(greatest(enqueued_at, '0001-01-01Z'), '9999-12-31Z'),
       least(greatest(run_at, '0001-01-01Z'), '9999-12-31Z'),
       claimed_at, NULL::timestamptz, worker_id,
       cancel_requested_at IS NOT NULL, NULL::text
FROM queue_jobs
WHERE id = ANY (ARRAY(SELECT unnest(job_ids) FROM queue_claims)) AND worker_id <> 0 AND id > $1
  AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
ORDER BY id LIMIT $4
