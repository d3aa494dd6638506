-- Who has these keys, in the caller's snapshot. $1: a list of `{place, kind, key}`.
SELECT w.place, k.job_id, IF(k.held_until = 'start', k.fence, NULL),
       (SELECT IF(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       TRUE,
       COALESCE(k.free_at > UTC_TIMESTAMP(6), FALSE)
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (place INT PATH '$.place',
    kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.key')) AS t) AS w
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = w.kind AND k.unique_key = w.name
