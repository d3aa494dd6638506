-- Gives keys to jobs that are sent back. $1: a list of `{kind, key, job_id, until, fence}`.
UPDATE queue_unique_keys AS k SET job_id = w.value ->> 'job_id', held_until = w.value ->> 'until',
    fence = w.value ->> 'fence', free_at = iif(k.job_id = w.value ->> 'job_id', k.free_at, NULL)
FROM json_each($1) AS w
WHERE k.kind = w.value ->> 'kind' AND k.unique_key = w.value ->> 'key'
