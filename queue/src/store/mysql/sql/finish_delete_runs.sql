-- Deletes locked jobs of this worker, by ranges of ids. The last id of a range is a separate condition: a range read
-- also locks the row behind its end, which may be another worker's.
DELETE j
FROM queue_jobs AS j FORCE INDEX (PRIMARY)
WHERE j.worker_id = $1
  AND (j.id BETWEEN $3 AND $4 - 1 OR j.id = $4
       OR j.id BETWEEN $5 AND $6 - 1 OR j.id = $6
       OR j.id BETWEEN $7 AND $8 - 1 OR j.id = $8
       OR j.id BETWEEN $9 AND $10 - 1 OR j.id = $10
       OR j.id BETWEEN $11 AND $12 - 1 OR j.id = $12
       OR j.id BETWEEN $13 AND $14 - 1 OR j.id = $14
       OR j.id BETWEEN $15 AND $16 - 1 OR j.id = $16
       OR j.id BETWEEN $17 AND $18 - 1 OR j.id = $18)
