-- The waiting and running jobs among these. No lock: the transaction is already the only writer.
SELECT id, features FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
