-- The dead ones among these jobs; the transaction is the only writer already.
SELECT id FROM queue_dead WHERE id IN (SELECT value ->> 'id' FROM json_each($1))
