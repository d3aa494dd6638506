-- Notes what happened at ticks.
INSERT INTO queue_ticks (schedule_id, tick_at, job_id, outcome, skipped, note)
SELECT id, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL tick_us MICROSECOND, job_id, outcome, skipped, note
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', tick_us BIGINT PATH '$.tick_us', job_id BIGINT PATH '$.job_id',
    outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome', skipped INT PATH '$.skipped',
    note TEXT CHARACTER SET utf8mb4 PATH '$.note')) AS t
