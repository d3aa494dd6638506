-- Gives locked keys to jobs. $1: a list of `{kind, key, job_id, until, fence, at_least_us}`.
UPDATE queue_unique_keys AS k SET job_id = w.job_id, held_until = w.until, fence = w.fence,
    free_at = CASE WHEN k.job_id = w.job_id THEN k.free_at
                   ELSE statement_timestamp() + w.at_least_us * interval '1 microsecond' END
FROM json_to_recordset($1::json) AS w (kind text, key text, job_id bigint, until text, fence integer,
    at_least_us bigint)
WHERE k.kind = w.kind AND k.unique_key = w.key
