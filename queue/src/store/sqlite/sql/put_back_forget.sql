-- Of the attempts of a job that do not count (snoozed, released), keeps only the last 100 to 200.
DELETE FROM queue_attempts
WHERE (job_id, fence) IN (
    SELECT a.job_id, a.fence
    FROM json_each($2) AS d
    CROSS JOIN queue_jobs AS j ON j.id = d.value ->> 'id'
    CROSS JOIN queue_attempts AS a ON a.job_id = j.id AND a.fence <= d.value ->> 'forget'
    WHERE d.value ->> 'forget' IS NOT NULL AND +j.worker_id = $1 AND j.fence = d.value ->> 'fence'
      AND a.outcome IN ('snoozed', 'released')
)
