-- The features of finished jobs that use any.
SELECT id, features FROM queue_history WHERE id = ANY ($1::bigint[]) AND features <> 0 ORDER BY id
