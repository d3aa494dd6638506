UPDATE queue_attempts SET outcome = 'lost'
WHERE job_id IN (SELECT value ->> 'id' FROM json_each($1) WHERE value ->> 'doubts' > 0) AND outcome = 'unstarted'
