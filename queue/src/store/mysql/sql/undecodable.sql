-- How long ago the arguments of a job first did not decode, if they never did since.
SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(started_at), UTC_TIMESTAMP(6)), 0)
FROM queue_attempts
WHERE job_id = $1 AND outcome = 'undecodable'
  AND fence > COALESCE((SELECT MAX(b.fence) FROM queue_attempts AS b
                        WHERE b.job_id = $1 AND b.outcome NOT IN ('undecodable', 'released', 'lost', 'unstarted')), 0)
