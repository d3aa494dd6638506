-- mariadb --default-character-set=utf8mb4 shop < examples/producers/unique.mysql.sql          (or: mysql …)
-- A unique job: run this as often as you like, and while one waits or runs, there is no second one (docs/sql.md).
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
INSERT INTO queue_unique_keys (kind, unique_key, job_id) VALUES ('greet', 'katherine', 0)
ON DUPLICATE KEY UPDATE job_id = LAST_INSERT_ID(queue_unique_keys.job_id);
INSERT INTO queue_jobs (kind, args, features)
SELECT k.kind, '{"name": "Katherine"}', 1 FROM queue_unique_keys AS k
WHERE k.kind = 'greet' AND k.unique_key = 'katherine' AND (k.free_at IS NULL OR k.free_at <= UTC_TIMESTAMP(6))
  AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j
      WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence));
UPDATE queue_unique_keys SET job_id = LAST_INSERT_ID(), held_until = 'end', fence = 0, free_at = NULL
WHERE kind = 'greet' AND unique_key = 'katherine' AND job_id <> LAST_INSERT_ID();
INSERT IGNORE INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT job_id, kind, unique_key, held_until FROM queue_unique_keys WHERE kind = 'greet' AND unique_key = 'katherine';
SELECT job_id FROM queue_unique_keys WHERE kind = 'greet' AND unique_key = 'katherine';
COMMIT;
