-- Gives a waiting job other values. Without a due time, it is due at once, and keeps its place if it is due. $1: a list
-- of `{id, fence, queue, priority, max_retries, args, delay_us, run_at_us, at_most_us}`; fence: NULL for any.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', fence INT PATH '$.fence',
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.queue',
    priority SMALLINT PATH '$.priority', max_retries INT PATH '$.max_retries',
    args LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.args',
    delay_us BIGINT PATH '$.delay_us', run_at_us BIGINT PATH '$.run_at_us', at_most_us BIGINT PATH '$.at_most_us')) AS w
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = w.id
SET j.queue = w.queue, j.priority = w.priority, j.max_retries = w.max_retries, j.args = w.args,
    j.run_at = LEAST(COALESCE(TIMESTAMP('1970-01-01') + INTERVAL w.run_at_us MICROSECOND,
                              UTC_TIMESTAMP(6) + INTERVAL w.delay_us MICROSECOND,
                              LEAST(j.run_at, UTC_TIMESTAMP(6))),
                     COALESCE(j.enqueued_at + INTERVAL w.at_most_us MICROSECOND, '9999-12-31'))
WHERE j.worker_id = 0 AND (w.fence IS NULL OR j.fence = w.fence)
