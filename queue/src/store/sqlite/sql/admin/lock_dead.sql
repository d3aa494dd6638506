-- The dead letters among these jobs. No lock: the transaction is already the only writer.
SELECT id, features FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
