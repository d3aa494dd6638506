-- How many rows of one ask are due, how many of these have a time that can be computed with, and where they begin. No lock.
SELECT COUNT(*), COUNT(place), MIN(place), MIN(id)
FROM (/* lanes */) AS due
