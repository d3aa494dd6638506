-- The schema's version, and a missing trigger: a copy of the tables may lack them. Ignores attached databases.
SELECT MAX(version), MAX(compatible_since),
       (SELECT name FROM (SELECT 'queue_history_takes' AS name UNION ALL SELECT 'queue_dead_takes')
        WHERE EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'queue_history')
          AND name NOT IN (SELECT name FROM main.sqlite_schema WHERE type = 'trigger'))
FROM queue_migrations
