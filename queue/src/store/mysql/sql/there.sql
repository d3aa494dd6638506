-- Tables and views whose names begin like ours: name, type and columns.
SELECT t.table_name, t.table_type,
       (SELECT GROUP_CONCAT(c.column_name ORDER BY c.ordinal_position) FROM information_schema.columns AS c
        WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name)
FROM information_schema.tables AS t
WHERE t.table_schema = DATABASE() AND t.table_name LIKE 'queue|_%' ESCAPE '|'
ORDER BY t.table_name
