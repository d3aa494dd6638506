-- Claims rows of one ask, the most common case, and writes the claim record. The ids travel as an array, so that the
-- update stays on the primary key, whatever the statistics say.
-- With $10, a list of kinds, it takes nothing if rows of these kinds wait in another lane. The probes stay before and
-- behind this lane, so none walks over the dead index entries in it. (Before it, queue and priority are separate
-- conditions: a row comparison with < does not end the scan within the same queue.)
-- Arguments stored in up to 188 bytes are never too long: `pglz` compresses at most 87-fold. Longer ones are converted
-- to text to measure them, which costs about 1 us each.
-- The fence wraps and the attempt is capped: a row edited to the maximum must not fail the claim of other rows.
WITH others AS MATERIALIZED (
    SELECT CASE WHEN $10::json IS NOT NULL THEN
        EXISTS (
            SELECT FROM queue_jobs WHERE worker_id = 0 AND kind = $2 AND queue < $3
            ORDER BY queue, priority, run_at, +id LIMIT 1
        ) OR EXISTS (
            SELECT FROM queue_jobs WHERE worker_id = 0 AND kind = $2 AND queue = $3 AND priority < $4
            ORDER BY queue, priority, run_at, +id LIMIT 1
        ) OR EXISTS (
            SELECT FROM queue_jobs WHERE worker_id = 0 AND kind = $2 AND (queue, priority) > ($3, $4)
            ORDER BY queue, priority, run_at, +id LIMIT 1
        ) OR EXISTS (
            SELECT FROM json_array_elements_text($10::json) AS served(kind)
            CROSS JOIN LATERAL (
                SELECT FROM queue_jobs AS j WHERE j.worker_id = 0 AND j.kind = served.kind
                ORDER BY j.queue, j.priority, j.run_at, +j.id LIMIT 1
            ) AS head
            WHERE served.kind <> $2
        )
    ELSE false END AS wait
), next AS MATERIALIZED (
    SELECT id FROM queue_jobs
    WHERE worker_id = 0 AND kind = $2 AND queue = $3 AND priority = $4 AND run_at <= now()
      AND (run_at, +id) > (timestamptz 'epoch' + $5 * interval '1 microsecond', $6)
      AND EXISTS (SELECT FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL)
      AND (SELECT b.expires_at FROM queue_heartbeats AS b WHERE b.worker_id = $1
          ORDER BY b.heartbeat_at DESC LIMIT 1) > now()
      AND NOT EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = $3)
      AND NOT (SELECT wait FROM others)
    ORDER BY run_at, +id
    LIMIT $7
    FOR UPDATE SKIP LOCKED
), noted AS (
    INSERT INTO queue_claims (worker_id, job_ids) SELECT $1, array_agg(id) FROM next HAVING count(*) > 0
    RETURNING id
)
UPDATE queue_jobs
SET worker_id = $1, fence = fence % 1000000000 + 1, attempt = least(attempt + 1, 1000000000), claimed_at = now(),
    cancel_requested_at = NULL, max_retries = coalesce(max_retries, $8::integer)
WHERE id = ANY (ARRAY(SELECT id FROM next))
RETURNING id, fence, attempt, max_retries, run_at, enqueued_at,
          CASE WHEN pg_column_size(args) > 188 AND octet_length(args::text) > $9 THEN octet_length(args::text) END,
          CASE WHEN pg_column_size(args) <= 188 OR octet_length(args::text) <= $9 THEN args END, losses,
          (SELECT noted.id FROM noted)
