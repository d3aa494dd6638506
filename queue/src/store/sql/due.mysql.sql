-- How many rows of one ask are due, and where they begin. No lock.
SELECT COUNT(*), MIN(place), MIN(id)
FROM (/* lanes */) AS due
