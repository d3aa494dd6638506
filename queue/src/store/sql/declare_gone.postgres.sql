-- A lock that can be had is held by no session, if it was held in this run of the server. A row that is locked is being written by its own worker's heartbeat.
UPDATE queue_workers SET stopped_at = now()
WHERE id = ANY (ARRAY(
    SELECT id FROM queue_workers
    WHERE id = $1 AND stopped_at IS NULL AND (extract(epoch FROM heartbeat_at) * 1000000)::bigint = $2
      AND server_run = (SELECT (extract(epoch FROM greatest(pg_postmaster_start_time(), stats_reset)) * 1000000)::bigint
                        FROM pg_stat_bgwriter)
      AND pg_try_advisory_xact_lock_shared('queue_workers'::regclass::oid::integer, ($1 % 2147483648)::integer)
    FOR UPDATE SKIP LOCKED))
RETURNING id
