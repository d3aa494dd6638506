DELETE FROM queue_jobs WHERE id IN (SELECT value ->> 'id' FROM json_each($1) WHERE value ->> 'fate' <> 'ready')
