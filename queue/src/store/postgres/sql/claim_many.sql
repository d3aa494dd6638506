-- As claim.sql, for several asks and for newest-first ones.
WITH ask AS MATERIALIZED (
    SELECT a.* FROM json_to_recordset($2::json) AS a (
        kind text, queue text, priority smallint, take bigint, after_us bigint, after_id bigint, newest boolean,
        max_retries integer)
    WHERE EXISTS (SELECT FROM queue_workers AS w WHERE w.id = $1 AND w.stopped_at IS NULL)
      AND (SELECT b.expires_at FROM queue_heartbeats AS b WHERE b.worker_id = $1
          ORDER BY b.heartbeat_at DESC LIMIT 1) > now()
      AND NOT EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = a.queue)
), oldest AS MATERIALIZED (
    SELECT next.id
    FROM ask
    CROSS JOIN LATERAL (
        SELECT j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = ask.kind AND j.queue = ask.queue AND j.priority = ask.priority
          AND j.run_at <= now()
          AND (j.run_at, +j.id) > (timestamptz 'epoch' + ask.after_us * interval '1 microsecond', ask.after_id)
        ORDER BY j.run_at, +j.id
        LIMIT ask.take
        FOR UPDATE SKIP LOCKED
    ) AS next
    WHERE NOT ask.newest
), newest AS MATERIALIZED (
    SELECT next.id
    FROM ask
    CROSS JOIN LATERAL (
        SELECT j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = ask.kind AND j.queue = ask.queue AND j.priority = ask.priority
          AND j.run_at <= now()
        ORDER BY j.run_at DESC, +j.id DESC
        LIMIT ask.take
        FOR UPDATE SKIP LOCKED
    ) AS next
    WHERE ask.newest
), next AS MATERIALIZED (
    SELECT id FROM oldest UNION ALL SELECT id FROM newest
), noted AS (
    INSERT INTO queue_claims (worker_id, job_ids) SELECT $1, array_agg(id) FROM next HAVING count(*) > 0
    RETURNING id
)
UPDATE queue_jobs AS j
SET worker_id = $1, fence = fence % 1000000000 + 1, attempt = least(attempt + 1, 1000000000), claimed_at = now(),
    cancel_requested_at = NULL,
    max_retries = coalesce(j.max_retries, (SELECT ask.max_retries FROM ask WHERE ask.kind = j.kind LIMIT 1))
WHERE j.id = ANY (ARRAY(SELECT id FROM next))
RETURNING j.id, j.fence, j.attempt, j.max_retries, j.run_at, j.enqueued_at,
          CASE WHEN pg_column_size(j.args) > 188 AND octet_length(j.args::text) > $3
              THEN octet_length(j.args::text) END,
          CASE WHEN pg_column_size(j.args) <= 188 OR octet_length(j.args::text) <= $3 THEN j.args END,
              j.losses,
          j.kind, j.queue, j.priority, (SELECT noted.id FROM noted)
