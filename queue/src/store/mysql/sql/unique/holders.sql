-- Who has these keys of a kind. The rows of the keys are read as they are now. A subquery reads the caller's snapshot,
-- and locks nothing.
SELECT k.unique_key, k.job_id, IF(k.held_until = 'start', k.fence, NULL),
       (SELECT IF(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       k.job_id = 0 OR EXISTS (SELECT 1 FROM queue_unique_keys AS s
           WHERE s.kind = k.kind AND s.unique_key = k.unique_key AND s.job_id = k.job_id AND s.fence = k.fence),
       COALESCE(k.free_at > UTC_TIMESTAMP(6), FALSE)
FROM queue_unique_keys AS k FORCE INDEX (PRIMARY)
WHERE k.kind = ? AND k.unique_key IN (/* places */)
LIMIT 18446744073709551615
FOR UPDATE
