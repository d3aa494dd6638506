-- The places of the next due rows of one ask, and whether rows of the served kinds wait in another lane.
SELECT due.priority, due.place, due.id, (/* others */) FROM (/* lanes */) AS due
