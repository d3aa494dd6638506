-- Ends the time of a key.
UPDATE queue_unique_keys SET free_at = NULL WHERE kind = $1 AND unique_key = $2 AND job_id <> 0
