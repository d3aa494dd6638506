-- Who has these keys. $1: a list of `{place, kind, key}`.
SELECT w.value ->> 'place', k.job_id, iif(k.held_until = 'start', k.fence, NULL),
       (SELECT iif(j.worker_id = 0, 1, 2) FROM queue_jobs AS j
           WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence)),
       1, coalesce(k.free_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0)
FROM json_each($1) AS w
CROSS JOIN queue_unique_keys AS k ON k.kind = w.value ->> 'kind' AND k.unique_key = w.value ->> 'key'
