-- One ask, the commonest case: the rows are marked, and a note is made of whose they are. The ids travel as an array, so that
-- the update stays on the primary key whatever the statistics say.
-- A lease or an attempt at the end of its numbers, which somebody wrote there, must not fail the claim of the others.
WITH next AS MATERIALIZED (
    SELECT id FROM queue_jobs
    WHERE worker_id = 0 AND kind = $2 AND queue = $3 AND priority = $4 AND run_at <= now()
      AND (run_at, +id) > (timestamptz 'epoch' + $5 * interval '1 microsecond', $6)
      AND EXISTS (SELECT FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL AND w.expires_at > now())
      AND NOT EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = $3)
    ORDER BY run_at, +id
    LIMIT $7
    FOR UPDATE SKIP LOCKED
), noted AS (
    INSERT INTO queue_claims (worker_id, job_ids) SELECT $1, array_agg(id) FROM next HAVING count(*) > 0
    RETURNING id
)
UPDATE queue_jobs
SET worker_id = $1, lease = lease % 1000000000 + 1, attempt = least(attempt + 1, 1000000000), claimed_at = now(),
    cancel_requested_at = NULL, max_retries = coalesce(max_retries, $8::integer)
WHERE id = ANY (ARRAY(SELECT id FROM next))
RETURNING id, lease, attempt, max_retries, run_at, enqueued_at, octet_length(args::text),
          CASE WHEN octet_length(args::text) <= $9 THEN args END, (SELECT noted.id FROM noted)
