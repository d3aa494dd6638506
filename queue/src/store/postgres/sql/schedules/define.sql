-- Writes schedules by name. A pause stays, unless the schedule was removed or was another application's. $1: definitions, $2: application
INSERT INTO queue_schedules (name, app, kind, queue, args, priority, max_retries, expression, zone, gap, fold, missed,
                             window_s, overlap, jitter_ms)
SELECT d.name, $2, d.kind, d.queue, d.args::json, d.priority, d.max_retries, d.expression, d.zone, d.gap, d.fold,
       d.missed, d.window_s, d.overlap, d.jitter_ms
FROM json_to_recordset($1::json) AS d (
    name text, kind text, queue text, args text, priority smallint, max_retries integer, expression text, zone text,
    gap text, fold text, missed text, window_s bigint, overlap text, jitter_ms bigint)
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, kind = excluded.kind, queue = excluded.queue, args = excluded.args,
    priority = excluded.priority, max_retries = excluded.max_retries, expression = excluded.expression,
    zone = excluded.zone, gap = excluded.gap, fold = excluded.fold, missed = excluded.missed,
    window_s = excluded.window_s, overlap = excluded.overlap, jitter_ms = excluded.jitter_ms, changed_at = now(),
    retired_at = NULL, error = NULL,
    paused_at = CASE WHEN queue_schedules.retired_at IS NULL AND queue_schedules.app = excluded.app
                     THEN queue_schedules.paused_at END,
    next_at = CASE WHEN queue_schedules.paused_at IS NULL OR queue_schedules.retired_at IS NOT NULL
                        OR queue_schedules.app <> excluded.app THEN timestamptz 'epoch' END
