-- Who has these keys of a kind, in the caller's snapshot. (The limit: a session may have one, sql_select_limit.)
SELECT k.unique_key, k.job_id, IF(k.held_until = 'start', k.fence, NULL),
       (SELECT IF(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       TRUE, COALESCE(k.free_at > UTC_TIMESTAMP(6), FALSE)
FROM queue_unique_keys AS k FORCE INDEX (PRIMARY)
WHERE k.kind = ? AND k.unique_key IN (/* places */)
LIMIT 18446744073709551615
