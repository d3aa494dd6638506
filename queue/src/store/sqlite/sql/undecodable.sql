-- How long ago the arguments of a job first did not decode, if they never did since.
SELECT coalesce(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - min(started_at), 0) * 1000
FROM queue_attempts
WHERE job_id = $1 AND outcome = 'undecodable'
  AND fence > COALESCE((SELECT MAX(b.fence) FROM queue_attempts AS b
                        WHERE b.job_id = $1 AND b.outcome NOT IN ('undecodable', 'released', 'lost', 'unstarted')), 0)
