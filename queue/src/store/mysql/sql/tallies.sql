-- Tallies: what started and ended, for each minute and each hour.

-- name: add
-- In the order of the key, as everybody locks these rows.
INSERT INTO queue_tallies (span, began_at, queue, kind, outcome, attempts, total_us, longest_us)
SELECT n.span, n.began_at, n.queue, n.kind, n.outcome, n.added, n.added_us, n.most_us
FROM (SELECT s.span,
             TIMESTAMPADD(SECOND, TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP()) DIV s.span * s.span,
                          CAST('1970-01-01' AS DATETIME(6))) AS began_at,
             d.queue, d.kind, d.outcome, d.added, d.added_us, d.most_us
      FROM (SELECT 60 AS span UNION ALL SELECT 3600) AS s
      STRAIGHT_JOIN JSON_TABLE($1, '$[*]' COLUMNS (
          queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.queue',
          kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.kind',
          outcome VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.outcome',
          added BIGINT PATH '$.attempts', added_us BIGINT PATH '$.total_us',
          most_us BIGINT PATH '$.longest_us')) AS d) AS n
ORDER BY n.span, n.queue, n.kind, n.outcome
ON DUPLICATE KEY UPDATE
    attempts = attempts + VALUES(attempts), total_us = total_us + VALUES(total_us),
    longest_us = GREATEST(longest_us, VALUES(longest_us))

-- name: purge
DELETE FROM queue_tallies
WHERE span = $1 AND began_at < UTC_TIMESTAMP(6) - INTERVAL $2 MICROSECOND
ORDER BY span, began_at, queue, kind, outcome
LIMIT $3

-- name: read
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', n.now), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', t.began_at),
       t.queue, t.kind, t.outcome, t.attempts, t.total_us, t.longest_us
FROM (SELECT UTC_TIMESTAMP(6) AS now) AS n
LEFT JOIN (SELECT * FROM queue_tallies
           WHERE span = $1 AND began_at > UTC_TIMESTAMP(6) - INTERVAL $2 MICROSECOND
           ORDER BY span DESC, began_at DESC LIMIT $3) AS t ON TRUE

-- name: add_failures
-- In the order of the key, as everybody locks these rows.
INSERT INTO queue_failures (failure, began_at, attempts, first_at, last_at)
SELECT n.failure, n.began_at, n.added, n.at, n.at
FROM (SELECT d.failure, d.added, UTC_TIMESTAMP(6) AS at,
             TIMESTAMPADD(SECOND, TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP()) DIV 3600 * 3600,
                          CAST('1970-01-01' AS DATETIME(6))) AS began_at
      FROM JSON_TABLE($1, '$[*]' COLUMNS (
          failure VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.failure',
          added BIGINT PATH '$.attempts')) AS d) AS n
ORDER BY n.failure
ON DUPLICATE KEY UPDATE attempts = attempts + VALUES(attempts), last_at = VALUES(last_at)

-- name: purge_failures
DELETE FROM queue_failures WHERE began_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
ORDER BY began_at, failure LIMIT $2

-- name: failures
SELECT f.failure, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', f.first_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', f.last_at),
       f.attempts
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    failure VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS d
STRAIGHT_JOIN queue_failures AS f FORCE INDEX (PRIMARY) ON f.failure = d.failure
ORDER BY f.failure, f.began_at
