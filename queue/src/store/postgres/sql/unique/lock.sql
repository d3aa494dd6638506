-- Inserts the missing keys, and locks all of them. $1: a list of `{kind, key}`, in the order in which everybody locks.
INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id)
SELECT kind, key, 0 FROM json_to_recordset($1::json) AS w (kind text, key text)
ON CONFLICT (kind, unique_key) DO UPDATE SET job_id = k.job_id
