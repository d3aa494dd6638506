-- Gives a waiting job other values. Without a due time, it is due at once, and keeps its place if it is due. $1: a list
-- of `{id, fence, queue, priority, max_retries, args, delay_us, run_at_us, at_most_us}`; fence: NULL for any.
UPDATE queue_jobs AS j SET queue = w.value ->> 'queue', priority = w.value ->> 'priority',
    max_retries = w.value ->> 'max_retries', args = w.value ->> 'args',
    run_at = min(coalesce((w.value ->> 'run_at_us' + 999) / 1000,
                          clock.now + (w.value ->> 'delay_us' + 2999) / 1000,
                          min(j.run_at, clock.now)),
                 coalesce(j.enqueued_at + (w.value ->> 'at_most_us' + 999) / 1000, 9223372036854775807))
FROM json_each($1) AS w CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
WHERE j.id = w.value ->> 'id' AND j.worker_id = 0
  AND (w.value ->> 'fence' IS NULL OR j.fence = w.value ->> 'fence')
