INSERT INTO queue_jobs (kind, queue, priority, max_retries, args, run_at)
VALUES ($1, $2, $3, $4, $5::json, coalesce(timestamptz 'epoch' + $7 * interval '1 microsecond', now() + $6 * interval '1 microsecond'))
RETURNING id
