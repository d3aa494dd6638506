-- A preview: how the next $1 jobs in order spread over the lanes. For each lane: the number of jobs that are among the
-- first $2 or before priority $3 and place ($4, $5); the number before that place; the number of all; the first and
-- last time; the lowest and highest id. No locks.
SELECT ask,
       COUNT(CASE WHEN number <= $2 OR priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5)))
           THEN 1 END),
       COUNT(CASE WHEN priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5))) THEN 1 END),
       COUNT(*), MIN(place), MAX(place), MIN(id), MAX(id)
FROM (
    SELECT ask, priority, place, id, ROW_NUMBER() OVER (ORDER BY priority, place, id) AS number
    FROM (/* lanes */ ORDER BY priority, place, id LIMIT $1) AS due
) AS next
GROUP BY ask
