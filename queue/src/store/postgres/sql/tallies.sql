-- Tallies: what started and ended, for each minute and each hour.

-- name: add
-- In the order of the key, as everybody locks these rows.
INSERT INTO queue_tallies AS t (span, began_at, queue, kind, outcome, attempts, total_us, longest_us)
SELECT s.span, to_timestamp(floor(extract(epoch FROM now()) / s.span) * s.span),
       d.queue, d.kind, d.outcome, d.attempts, d.total_us, d.longest_us
FROM (VALUES (60), (3600)) AS s (span)
CROSS JOIN json_to_recordset($1::json)
    AS d (queue text, kind text, outcome text, attempts bigint, total_us bigint, longest_us bigint)
ORDER BY s.span, d.queue COLLATE "C", d.kind COLLATE "C", d.outcome COLLATE "C"
ON CONFLICT (span, began_at, queue, kind, outcome) DO UPDATE
SET attempts = t.attempts + excluded.attempts, total_us = t.total_us + excluded.total_us,
    longest_us = greatest(t.longest_us, excluded.longest_us)

-- name: purge
DELETE FROM queue_tallies AS t
USING (SELECT * FROM queue_tallies
       WHERE span = $1 AND began_at < now() - $2 * interval '1 microsecond'
       ORDER BY span, began_at LIMIT $3
       FOR UPDATE SKIP LOCKED) AS o
WHERE (t.span, t.began_at, t.queue, t.kind, t.outcome) = (o.span, o.began_at, o.queue, o.kind, o.outcome)

-- name: read
SELECT n.now, t.began_at, t.queue, t.kind, t.outcome, t.attempts, t.total_us, t.longest_us
FROM (SELECT now() AS now) AS n
LEFT JOIN (SELECT * FROM queue_tallies
           WHERE span = $1 AND began_at > now() - $2 * interval '1 microsecond'
           ORDER BY span DESC, began_at DESC LIMIT $3) AS t ON true

-- name: add_failures
-- In the order of the key, as everybody locks these rows.
INSERT INTO queue_failures AS f (failure, began_at, attempts, first_at, last_at)
SELECT d.failure, to_timestamp(floor(extract(epoch FROM now()) / 3600) * 3600), d.attempts, now(), now()
FROM json_to_recordset($1::json) AS d (failure text, attempts bigint)
ORDER BY d.failure COLLATE "C"
ON CONFLICT (failure, began_at) DO UPDATE SET attempts = f.attempts + excluded.attempts, last_at = excluded.last_at

-- name: purge_failures
DELETE FROM queue_failures AS f
USING (SELECT * FROM queue_failures WHERE began_at < now() - $1 * interval '1 microsecond'
       ORDER BY began_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS o
WHERE (f.failure, f.began_at) = (o.failure, o.began_at)

-- name: failures
SELECT failure, now(), first_at, last_at, attempts FROM queue_failures
WHERE failure = ANY (ARRAY(SELECT json_array_elements_text($1::json)))
ORDER BY failure, began_at
