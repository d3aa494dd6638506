-- Of the next $1 jobs in order, how many are in each of the lanes asked: of the first $2 and of those that come before
-- priority $3 and place $4; of the latter; of all; and where each lane has its first and its last of them. No lock.
SELECT ask,
       COUNT(CASE WHEN number <= $2 OR priority < $3 OR (priority = $3 AND place < $4) THEN 1 END),
       COUNT(CASE WHEN priority < $3 OR (priority = $3 AND place < $4) THEN 1 END),
       COUNT(*), MIN(place), MAX(place)
FROM (
    SELECT ask, priority, place, ROW_NUMBER() OVER (ORDER BY priority, place, id) AS number
    FROM (/* lanes */ ORDER BY priority, place, id LIMIT $1) AS due
) AS next
GROUP BY ask
