-- Notes the keys of new jobs. $1: a list of `{kind, key, job_id, until}`.
INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT w.job_id, w.kind, w.name, w.held_until
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.key',
    job_id BIGINT PATH '$.job_id',
    held_until VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.until')) AS w
