-- Gives keys to jobs. $1: a list of `{kind, key, job_id, until, fence, at_least_us}`. A time is lengthened by the 2 ms
-- by which this clock may be slow.
UPDATE queue_unique_keys AS k SET job_id = w.value ->> 'job_id', held_until = w.value ->> 'until',
    fence = w.value ->> 'fence',
    free_at = iif(k.job_id = w.value ->> 'job_id', k.free_at,
        CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + (w.value ->> 'at_least_us' + 2999) / 1000)
FROM json_each($1) AS w
WHERE k.kind = w.value ->> 'kind' AND k.unique_key = w.value ->> 'key'
