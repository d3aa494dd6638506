-- Locks rows by id, and no other rows. An earlier read without locks found them due. A row may have moved to another
-- lane since then, so each row names its lane.
-- The last column is 1 in a Galera cluster. There, another node may abort the transaction between two statements of one
-- text, and the rest would run outside it. So the statements that follow travel separately.
SELECT j.id, j.fence % 1000000000 + 1, LEAST(j.attempt + 1, 1000000000), COALESCE(j.max_retries, $3),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.run_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.enqueued_at),
       LENGTH(j.args), CASE WHEN LENGTH(j.args) <= $4 THEN j.args END, j.losses,
       j.kind, j.queue, j.priority, COALESCE(@queue_in_cluster, 0)
FROM (SELECT t.* FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = 0 AND j.run_at <= UTC_TIMESTAMP(6)
  AND (SELECT COUNT(*) FROM queue_workers AS w STRAIGHT_JOIN queue_heartbeats AS b ON b.worker_id = w.id
       WHERE w.id = $2 AND w.stopped_at IS NULL AND b.expires_at > UTC_TIMESTAMP(6)) = 1
FOR UPDATE SKIP LOCKED
