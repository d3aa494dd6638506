-- A page of running jobs, found through the claim records: no walk over all waiting rows.
SELECT j.id, kind, queue, 'running', priority, attempt, max_retries,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', enqueued_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', run_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', claimed_at), CAST(NULL AS SIGNED), j.worker_id,
       cancel_requested_at IS NOT NULL, CAST(NULL AS CHAR)
FROM (SELECT DISTINCT d.id
      FROM queue_claims AS c
      STRAIGHT_JOIN JSON_TABLE(c.job_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS d) AS claimed
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = claimed.id
WHERE j.worker_id <> 0 AND j.id > $1 AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR queue = $3)
ORDER BY j.id LIMIT $4
