-- As mysql/sql/preview_many.sql. (With a bare variable as the limit, SQLite would prepare the statement anew each
-- time.)
SELECT ask,
       COUNT(CASE WHEN number <= $2 OR priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5)))
           THEN 1 END),
       COUNT(CASE WHEN priority < $3 OR (priority = $3 AND (place < $4 OR (place = $4 AND id < $5))) THEN 1 END),
       COUNT(*), MIN(place), MAX(place), MIN(id), MAX(id)
FROM (
    SELECT ask, priority, place, id, ROW_NUMBER() OVER (ORDER BY priority, place, id) AS number
    FROM (/* lanes */ ORDER BY priority, place, id LIMIT +$1) AS due
) AS next
GROUP BY ask
