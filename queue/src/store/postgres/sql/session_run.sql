-- Identifies the server run: when the server started, or last lost all sessions. If one of its processes crashes, it
-- ends all sessions and resets its statistics.
SELECT (extract(epoch FROM greatest(pg_postmaster_start_time(), stats_reset)) * 1000000)::bigint FROM pg_stat_bgwriter
