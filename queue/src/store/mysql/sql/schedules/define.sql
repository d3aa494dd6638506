-- Writes schedules by name. A pause stays, unless the schedule was removed or was another application's. $1: definitions, $2: application
INSERT INTO queue_schedules (name, app, kind, queue, args, priority, max_retries, expression, zone, gap, fold, missed,
                             window_s, overlap, jitter_ms)
SELECT d.name, $2, d.kind, d.queue, d.args, d.priority, d.max_retries, d.expression, d.zone, d.gap, d.fold, d.missed,
       d.window_s, d.overlap, d.jitter_ms
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    name VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.name', kind VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.kind',
    queue VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.queue', args LONGTEXT CHARACTER SET utf8mb4 PATH '$.args',
    priority SMALLINT PATH '$.priority', max_retries INT PATH '$.max_retries',
    expression VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.expression',
    zone VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.zone', gap VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.gap',
    fold VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fold', missed VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.missed',
    window_s BIGINT PATH '$.window_s', overlap VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.overlap',
    jitter_ms BIGINT PATH '$.jitter_ms')) AS d
ON DUPLICATE KEY UPDATE
    paused_at = IF(retired_at IS NULL AND app = VALUES(app), paused_at, NULL),
    app = VALUES(app), kind = VALUES(kind), queue = VALUES(queue), args = VALUES(args), priority = VALUES(priority),
    max_retries = VALUES(max_retries), expression = VALUES(expression), zone = VALUES(zone), gap = VALUES(gap),
    fold = VALUES(fold), missed = VALUES(missed), window_s = VALUES(window_s), overlap = VALUES(overlap),
    jitter_ms = VALUES(jitter_ms), changed_at = UTC_TIMESTAMP(6), retired_at = NULL, error = NULL,
    next_at = IF(paused_at IS NULL, '1970-01-01', NULL)
