-- Tallies: what started and ended, for each minute and each hour.

-- name: add
INSERT INTO queue_tallies (span, began_at, queue, kind, outcome, attempts, total_us, longest_us)
SELECT s.span,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) / (s.span * 1000) * (s.span * 1000),
       d.value ->> 'queue', d.value ->> 'kind', d.value ->> 'outcome',
       d.value ->> 'attempts', d.value ->> 'total_us', d.value ->> 'longest_us'
FROM (SELECT 60 AS span UNION ALL SELECT 3600) AS s CROSS JOIN json_each($1) AS d
WHERE true
ON CONFLICT (span, began_at, queue, kind, outcome) DO UPDATE
SET attempts = attempts + excluded.attempts, total_us = total_us + excluded.total_us,
    longest_us = max(longest_us, excluded.longest_us)

-- name: purge
DELETE FROM queue_tallies
WHERE (span, began_at, queue, kind, outcome) IN (
    SELECT span, began_at, queue, kind, outcome FROM queue_tallies
    WHERE span = $1 AND began_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2 / 1000
    ORDER BY began_at LIMIT +$3)

-- name: read
SELECT n.now * 1000, t.began_at * 1000, t.queue, t.kind, t.outcome, t.attempts, t.total_us, t.longest_us
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS n
LEFT JOIN (SELECT * FROM queue_tallies
           WHERE span = $1 AND began_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2 / 1000
           ORDER BY span DESC, began_at DESC LIMIT +$3) AS t ON true

-- name: add_failures
INSERT INTO queue_failures (failure, began_at, attempts, first_at, last_at)
SELECT d.value ->> 'failure', n.now / 3600000 * 3600000, d.value ->> 'attempts', n.now, n.now
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS n CROSS JOIN json_each($1) AS d
WHERE true
ON CONFLICT (failure, began_at) DO UPDATE SET attempts = attempts + excluded.attempts, last_at = excluded.last_at

-- name: purge_failures
DELETE FROM queue_failures
WHERE (failure, began_at) IN (
    SELECT failure, began_at FROM queue_failures
    WHERE began_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1 / 1000
    ORDER BY began_at LIMIT +$2)

-- name: failures
SELECT failure, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000, first_at * 1000, last_at * 1000,
       attempts
FROM queue_failures WHERE failure IN (SELECT value FROM json_each($1))
ORDER BY failure, began_at
