-- Of the next $1 jobs in order, how many are in each of the lanes asked, and the last one's place. No lock.
SELECT next.ask, COUNT(*), MAX(next.place)
FROM (/* lanes */ ORDER BY priority, place, id LIMIT $1) AS next
GROUP BY next.ask
