-- Writes schedules by name. A pause stays, unless the schedule was removed or was another application's. $1: definitions, $2: application
INSERT INTO queue_schedules (name, app, kind, queue, args, priority, max_retries, expression, zone, gap, fold, missed,
                             window_s, overlap, jitter_ms)
SELECT value ->> 'name', $2, value ->> 'kind', value ->> 'queue', value ->> 'args', value ->> 'priority',
       value ->> 'max_retries', value ->> 'expression', value ->> 'zone', value ->> 'gap', value ->> 'fold',
       value ->> 'missed', value ->> 'window_s', value ->> 'overlap', value ->> 'jitter_ms'
FROM json_each($1)
WHERE true
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, kind = excluded.kind, queue = excluded.queue, args = excluded.args,
    priority = excluded.priority, max_retries = excluded.max_retries, expression = excluded.expression,
    zone = excluded.zone, gap = excluded.gap, fold = excluded.fold, missed = excluded.missed,
    window_s = excluded.window_s, overlap = excluded.overlap, jitter_ms = excluded.jitter_ms,
    changed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), retired_at = NULL, error = NULL,
    paused_at = iif(retired_at IS NULL AND app = excluded.app, paused_at, NULL),
    next_at = iif(paused_at IS NULL OR retired_at IS NOT NULL OR app <> excluded.app, 0, NULL)
