INSERT INTO queue_attempts (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT j.id, j.lease, j.attempt, j.worker_id, coalesce(j.claimed_at, now), now, 'lost',
       'the worker' || coalesce(' (' || w.host || ':' || w.pid || ')', '') || ' running this job was lost'
       || coalesce(' (no heartbeat since ' || strftime('%Y-%m-%d %H:%M:%S', w.heartbeat_at / 1000, 'unixepoch') || ' UTC)', '')
FROM json_each($1) AS d CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
LEFT JOIN queue_workers AS w ON w.id = j.worker_id
WHERE TRUE
ON CONFLICT DO NOTHING
