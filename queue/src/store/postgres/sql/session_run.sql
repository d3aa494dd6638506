-- When the server began to know this session's like: it starts, or forgets all sessions when one of its processes fails, which its
-- statistics do not survive either.
SELECT (extract(epoch FROM greatest(pg_postmaster_start_time(), stats_reset)) * 1000000)::bigint FROM pg_stat_bgwriter
