DELETE FROM queue_history WHERE id = ANY ($1::bigint[])
