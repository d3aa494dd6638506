-- Tables, indexes, views and triggers whose names begin like ours.
SELECT name FROM main.sqlite_schema WHERE name LIKE 'queue|_%' ESCAPE '|'
