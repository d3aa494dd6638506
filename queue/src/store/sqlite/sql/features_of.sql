-- The features of finished jobs that use any.
SELECT id, features FROM queue_history WHERE id IN (SELECT value FROM json_each($1)) AND features <> 0 ORDER BY id
