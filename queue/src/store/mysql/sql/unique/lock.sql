-- Inserts the missing keys, and locks all of them. Fails in a session that would change their text: see settings.rs.
-- $1: a list of `{kind, key}`, in the order in which everybody locks. LAST_INSERT_ID stays 0 if all of them are new.
INSERT INTO queue_unique_keys (kind, unique_key, job_id)
SELECT IF(@@character_set_client = 'utf8mb4', w.kind, NULL), w.name, 0
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.key')) AS w
ON DUPLICATE KEY UPDATE job_id = LAST_INSERT_ID(queue_unique_keys.job_id)
