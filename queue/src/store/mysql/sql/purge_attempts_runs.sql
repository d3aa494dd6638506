DELETE a
FROM queue_attempts AS a FORCE INDEX (PRIMARY)
WHERE a.job_id BETWEEN $2 AND $3
   OR a.job_id BETWEEN $4 AND $5
   OR a.job_id BETWEEN $6 AND $7
   OR a.job_id BETWEEN $8 AND $9
   OR a.job_id BETWEEN $10 AND $11
   OR a.job_id BETWEEN $12 AND $13
   OR a.job_id BETWEEN $14 AND $15
   OR a.job_id BETWEEN $16 AND $17
