-- Marks locked rows as claimed. $2: a list of `[id, max_retries]`.
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (id BIGINT PATH '$[0]', max_retries INT PATH '$[1]')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.worker_id = $1, j.fence = j.fence % 1000000000 + 1, j.attempt = LEAST(j.attempt + 1, 1000000000),
    j.claimed_at = UTC_TIMESTAMP(6), j.cancel_requested_at = NULL, j.max_retries = d.max_retries
