-- Who has these keys. $1: a list of `{place, kind, key}`.
SELECT w.place, k.job_id, CASE WHEN k.held_until = 'start' THEN k.fence END,
       (SELECT CASE WHEN j.worker_id = 0 THEN 1 ELSE 2 END FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       true, coalesce(k.free_at > statement_timestamp(), false)
FROM json_to_recordset($1::json) AS w (place integer, kind text, key text)
CROSS JOIN LATERAL (
    SELECT * FROM queue_unique_keys AS k WHERE k.kind = w.kind AND k.unique_key = w.key OFFSET 0
) AS k
