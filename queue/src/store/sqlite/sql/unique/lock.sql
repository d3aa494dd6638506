-- Inserts the missing keys. From here on, this transaction is the only writer. $1: a list of `{kind, key}`.
INSERT INTO queue_unique_keys (kind, unique_key, job_id)
SELECT value ->> 'kind', value ->> 'key', 0 FROM json_each($1) WHERE true ON CONFLICT DO NOTHING
