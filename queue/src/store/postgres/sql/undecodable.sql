-- The last attempts of a job in which its arguments did not decode, and how long ago the first of them was.
SELECT count(*), COALESCE((extract(epoch FROM now() - min(started_at)) * 1000000)::bigint, 0)
FROM queue_attempts
WHERE job_id = $1 AND outcome = 'undecodable'
  AND fence > COALESCE((SELECT MAX(b.fence) FROM queue_attempts AS b
                        WHERE b.job_id = $1 AND b.outcome NOT IN ('undecodable', 'released', 'lost', 'unstarted')), 0)
