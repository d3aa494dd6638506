-- Gives locked keys to jobs. $1: a list of `{kind, key, job_id, until, fence, at_least_us}`.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (
    kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.key',
    job_id BIGINT PATH '$.job_id', held_until VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.until',
    fence INT PATH '$.fence', at_least_us BIGINT PATH '$.at_least_us')) AS w
STRAIGHT_JOIN queue_unique_keys AS k FORCE INDEX (PRIMARY) ON k.kind = w.kind AND k.unique_key = w.name
SET k.free_at = IF(k.job_id = w.job_id, k.free_at, UTC_TIMESTAMP(6) + INTERVAL w.at_least_us MICROSECOND),
    k.job_id = w.job_id, k.held_until = w.held_until, k.fence = w.fence
