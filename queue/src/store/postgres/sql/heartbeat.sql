-- A heartbeat in one statement, because an idle worker sends hardly any other. It covers up to 32 other workers, the
-- next 16 by id and the first 16, so that several workers watch each one. A lock that can be taken is held by no
-- session. It is released when this statement ends.
-- Claim records that the worker reports as settled are deleted only in the session that answered its last heartbeat: a
-- server that has failed may have lost commits that it had acknowledged. In a new session all its records are checked.
-- The last heartbeat of a worker is the last of its index entries: see queue_heartbeats.
WITH beat AS (
    UPDATE queue_heartbeats SET heartbeat_at = now(), expires_at = now() + $2 * interval '1 microsecond',
        server_run = $8,
                                next_heartbeat_at = now() + $9 * interval '1 microsecond'
    WHERE worker_id = $1
      AND heartbeat_at >= (SELECT heartbeat_at FROM queue_heartbeats WHERE worker_id = $1
          ORDER BY heartbeat_at DESC LIMIT 1)
      AND EXISTS (SELECT FROM queue_workers WHERE id = $1 AND stopped_at IS NULL)
    RETURNING worker_id
), other AS MATERIALIZED (
    SELECT near.id, last.*
    FROM ((SELECT id FROM queue_workers WHERE stopped_at IS NULL AND id > $1 ORDER BY id LIMIT 16)
          UNION ALL
          (SELECT id FROM queue_workers WHERE stopped_at IS NULL AND id < $1 ORDER BY id LIMIT 16)) AS near
    CROSS JOIN LATERAL (SELECT heartbeat_at, expires_at, server_run, next_heartbeat_at
                        FROM queue_heartbeats WHERE worker_id = near.id ORDER BY heartbeat_at DESC LIMIT 1) AS last
), settled AS MATERIALIZED (
    SELECT told::bigint AS id FROM json_array_elements_text($5::json) AS told WHERE pg_backend_pid() = $7
), found AS MATERIALIZED (
    -- records that it does not report; LIMIT keeps each job a lookup by key, whatever the statistics say
    SELECT c.id FROM queue_claims AS c
    WHERE ($6 = 1 OR pg_backend_pid() <> $7) AND c.worker_id = $1 AND c.id NOT IN (SELECT id FROM settled)
      AND NOT EXISTS (SELECT FROM unnest(c.job_ids) AS claimed(id)
                      CROSS JOIN LATERAL (SELECT FROM queue_jobs AS j
                                          WHERE j.id = claimed.id AND j.worker_id = c.worker_id LIMIT 1) AS job)
), forgotten AS (
    DELETE FROM queue_claims
    WHERE worker_id = $1 AND id = ANY (ARRAY(SELECT id FROM settled UNION ALL SELECT id FROM found))
)
SELECT EXISTS (SELECT FROM beat),
       EXISTS (SELECT FROM json_array_elements_text($3::json) AS served(kind)
               CROSS JOIN LATERAL (SELECT 1 FROM queue_jobs AS j
                                   WHERE j.worker_id = 0 AND j.kind = served.kind
                                   ORDER BY j.kind, j.queue, j.priority, j.run_at LIMIT 1) AS waiting),
       (SELECT json_agg(json_build_array(id, fence))::text FROM queue_jobs
        WHERE id = ANY (ARRAY(SELECT running::bigint FROM json_array_elements_text($4::json) AS running))
          AND worker_id = $1 AND cancel_requested_at IS NOT NULL),
       pg_backend_pid(),
       (SELECT json_agg(json_build_array(
                   id,
                   (NOT pg_try_advisory_xact_lock_shared(
                       'queue_workers'::regclass::oid::integer, (id % 2147483648)::integer))::integer,
                   (NOT pg_try_advisory_xact_lock_shared(
                       'queue_jobs'::regclass::oid::integer, (id % 2147483648)::integer))::integer,
                   (extract(epoch FROM heartbeat_at) * 1000000)::bigint,
                   server_run,
                   coalesce((extract(epoch FROM now() - next_heartbeat_at) * 1000000)::bigint, 0),
                   (extract(epoch FROM expires_at - now()) * 1000000)::bigint,
                   (extract(epoch FROM expires_at - heartbeat_at) * 1000000)::bigint))::text
        FROM other)
