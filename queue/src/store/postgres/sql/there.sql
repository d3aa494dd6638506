-- Tables, indexes, views and sequences whose names begin like ours.
SELECT c.relname::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relname LIKE 'queue|_%' ESCAPE '|'
