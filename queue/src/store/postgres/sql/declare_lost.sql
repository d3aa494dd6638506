-- Declares a worker lost whose lease has run out ($3 = 1), or whose liveness lock is free. A free lock counts only in
-- the server run in which the lock was held. SKIP LOCKED: a locked heartbeat is just being written by its own worker.
WITH gone AS (
    DELETE FROM queue_heartbeats
    WHERE worker_id = $1 AND heartbeat_at = ANY (ARRAY(
        SELECT heartbeat_at FROM queue_heartbeats
        WHERE worker_id = $1 AND heartbeat_at = timestamptz 'epoch' + $2 * interval '1 microsecond'
          AND CASE WHEN $3 = 1 THEN expires_at < now() ELSE
              server_run = (SELECT (extract(epoch FROM greatest(pg_postmaster_start_time(), stats_reset))
                  * 1000000)::bigint
                            FROM pg_stat_bgwriter)
              AND pg_try_advisory_xact_lock_shared('queue_workers'::regclass::oid::integer, ($1 % 2147483648)::integer)
                  END
        FOR UPDATE SKIP LOCKED))
    RETURNING heartbeat_at
)
UPDATE queue_workers SET stopped_at = now(), heartbeat_at = gone.heartbeat_at
FROM gone WHERE id = $1 AND stopped_at IS NULL
RETURNING id
