-- Of the next $1 jobs in order, how many are in each of the lanes asked: of the first $2 and of those that come before
-- priority $3 and place $4, $5; of the latter; of all; when the first and the last of each lane is due, and the least and the
-- greatest of their ids. No lock.
SELECT ask,
       COUNT(CASE WHEN number <= $2 OR priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5))) THEN 1 END),
       COUNT(CASE WHEN priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5))) THEN 1 END),
       COUNT(*), MIN(place), MAX(place), MIN(id), MAX(id)
FROM (
    SELECT ask, priority, place, id, ROW_NUMBER() OVER (ORDER BY priority, place, id) AS number
    FROM (/* lanes */ ORDER BY priority, place, id LIMIT $1) AS due
) AS next
GROUP BY ask
