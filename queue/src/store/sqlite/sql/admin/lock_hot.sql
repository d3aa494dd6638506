-- The waiting and running ones among these jobs; the transaction is the only writer already.
SELECT id FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
