-- How a worker finds jobs and takes them.

-- name: discover
-- A skip scan of the claim index: one probe per lane. It starts from the served kinds, so it never visits other kinds.
-- It begins behind the lane given for each kind, advances all kinds one lane at a time, and ends after $2 lanes.
WITH RECURSIVE lanes AS (
    SELECT head.*
    FROM json_to_recordset($1::json) AS served (kind text, queue text, priority smallint)
    CROSS JOIN LATERAL (
        SELECT j.kind, j.queue, j.priority, j.run_at, j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = served.kind AND (j.queue, j.priority) > (served.queue, served.priority)
        ORDER BY j.queue, j.priority, j.run_at, +j.id LIMIT 1
    ) AS head
    UNION ALL
    SELECT head.*
    FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT j.kind, j.queue, j.priority, j.run_at, j.id FROM queue_jobs AS j
        WHERE j.worker_id = 0 AND j.kind = l.kind AND (j.queue, j.priority) > (l.queue, l.priority)
        ORDER BY j.queue, j.priority, j.run_at, +j.id LIMIT 1
    ) AS head
)
SELECT l.kind, l.queue, l.priority, l.run_at, now(), l.id,
    EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = l.queue)
FROM (SELECT * FROM lanes LIMIT $2) AS l

-- name: preview
-- A preview: how the next $2 jobs in order spread over the lanes. For each lane: the number of jobs that are among the
-- first $3 or before priority $4 and place ($5, $6); the number before that place; the number of all; the first and
-- last time; the lowest and highest id. Jobs from priority $7 and place ($8, $9) on are not read. (Jobs due exactly at
-- $8 have a branch of their own: PostgreSQL uses only the time of a row comparison to bound the scan.) No locks.
SELECT ask, count(*) FILTER (WHERE number <= $3 OR is_sure), count(*) FILTER (WHERE is_sure),
       count(*), (min(place) * 1000000)::bigint, (max(place) * 1000000)::bigint, min(id), max(id)
FROM (
    SELECT due.ask, due.place, due.id, row_number() OVER (ORDER BY priority, place, id) AS number,
           (priority, place, id) < ($4, $5 / 1000000::numeric, $6) AS is_sure
    FROM (
        SELECT a.ask, a.priority, j.place, j.id
        FROM json_to_recordset($1::json) AS a (
            ask integer, kind text, queue text, priority smallint, after_us bigint, after_id bigint, newest boolean)
        CROSS JOIN LATERAL (
            (SELECT j.id, extract(epoch FROM j.run_at) AS place FROM queue_jobs AS j
             WHERE NOT a.newest AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue
               AND j.priority = a.priority AND j.run_at <= now()
               AND j.run_at < CASE WHEN a.priority < $7 THEN timestamptz 'infinity'
                                   WHEN a.priority = $7 THEN timestamptz 'epoch' + $8 * interval '1 microsecond'
                                   ELSE timestamptz '-infinity' END
               AND (j.run_at, +j.id) > (timestamptz 'epoch' + a.after_us * interval '1 microsecond', a.after_id)
             ORDER BY j.run_at, +j.id LIMIT $2)
            UNION ALL
            (SELECT j.id, extract(epoch FROM j.run_at) FROM queue_jobs AS j
             WHERE NOT a.newest AND a.priority = $7 AND $9 > -9223372036854775808 AND a.after_us <= $8
               AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue AND j.priority = a.priority
               AND j.run_at = timestamptz 'epoch' + $8 * interval '1 microsecond' AND j.run_at <= now()
               AND +j.id > CASE WHEN a.after_us = $8 THEN a.after_id ELSE -9223372036854775808 END AND +j.id < $9
             ORDER BY +j.id LIMIT $2)
            UNION ALL
            (SELECT -1 - j.id, -extract(epoch FROM j.run_at) FROM queue_jobs AS j
             WHERE a.newest AND j.worker_id = 0 AND j.kind = a.kind AND j.queue = a.queue
               AND j.priority = a.priority AND j.run_at <= now()
             ORDER BY j.run_at DESC, +j.id DESC LIMIT $2)
        ) AS j
        WHERE NOT EXISTS (SELECT FROM queue_paused AS p WHERE p.queue = a.queue)
        ORDER BY a.priority, j.place, j.id
        LIMIT $2
    ) AS due
) AS next
GROUP BY ask

-- name: claim
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
          CASE WHEN pg_column_size(args) <= 188 OR octet_length(args::text) <= $9 THEN args END, losses, meta,
          (SELECT noted.id FROM noted)

-- name: claim_many
-- As `claim`, for several asks and for newest-first ones.
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
              j.losses, j.meta,
          j.kind, j.queue, j.priority, (SELECT noted.id FROM noted)
