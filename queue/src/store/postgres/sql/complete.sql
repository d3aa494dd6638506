-- Completes one job in a transaction of its handler's. The time is that of this statement: the transaction may have
-- begun long ago. The job's own time of enqueue tells another database apart, which may have the same numbers. Outside a
-- transaction there is no number of one yet, so this finds nothing.
WITH gone AS (
    DELETE FROM queue_jobs
    WHERE id = $1 AND worker_id = $2 AND fence = $3
      AND enqueued_at = timestamptz 'epoch' + $4 * interval '1 microsecond'
      AND txid_current_if_assigned() IS NOT NULL
    RETURNING *
)
INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, worker_id,
                           enqueued_at, run_at, started_at, finished_at, result, error)
SELECT id, kind, queue, 'completed', args, priority, features, max_retries, attempt, fence, worker_id, enqueued_at,
       run_at, statement_timestamp() - $5 * interval '1 microsecond', statement_timestamp(), $6::json, NULL
FROM gone
