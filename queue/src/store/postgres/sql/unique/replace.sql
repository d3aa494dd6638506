-- Gives a waiting job other values. Without a due time, it is due at once, and keeps its place if it is due. $1: a list
-- of `{id, fence, queue, priority, max_retries, args, delay_us, run_at_us, at_most_us}`; fence: NULL for any.
UPDATE queue_jobs AS j SET queue = w.queue, priority = w.priority, max_retries = w.max_retries, args = w.args::json,
    run_at = least(coalesce(timestamptz 'epoch' + w.run_at_us * interval '1 microsecond',
                            statement_timestamp() + w.delay_us * interval '1 microsecond',
                            least(j.run_at, statement_timestamp())),
                   j.enqueued_at + w.at_most_us * interval '1 microsecond')
FROM json_to_recordset($1::json) AS w (id bigint, fence integer, queue text, priority smallint, max_retries integer,
    args text, delay_us bigint, run_at_us bigint, at_most_us bigint)
WHERE j.id = w.id AND j.worker_id = 0 AND (w.fence IS NULL OR j.fence = w.fence)
