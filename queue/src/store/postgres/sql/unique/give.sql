-- Gives locked keys to jobs that are sent back. $1: a list of `{kind, key, job_id, until, fence}`.
UPDATE queue_unique_keys AS k SET job_id = w.job_id, held_until = w.until, fence = w.fence,
    free_at = CASE WHEN k.job_id = w.job_id THEN k.free_at END
FROM json_to_recordset($1::json) AS w (kind text, key text, job_id bigint, until text, fence integer)
WHERE k.kind = w.kind AND k.unique_key = w.key
