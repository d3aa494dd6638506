-- sqlite3 jobs.sqlite < examples/producers/unique.sqlite.sql
.timeout 5000
-- A unique job: run this as often as you like, and while one waits or runs, there is no second one (docs/sql.md).
BEGIN IMMEDIATE;
INSERT INTO queue_unique_keys (kind, unique_key, job_id) VALUES ('greet', 'katherine', 0) ON CONFLICT DO NOTHING;
INSERT INTO queue_jobs (kind, args, features)
SELECT k.kind, '{"name": "Katherine"}', 1 FROM queue_unique_keys AS k
WHERE k.kind = 'greet' AND k.unique_key = 'katherine' AND (k.free_at IS NULL OR k.free_at <= unixepoch() * 1000)
  AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j
      WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence));
UPDATE queue_unique_keys SET job_id = last_insert_rowid(), held_until = 'end', fence = 0, free_at = NULL
WHERE kind = 'greet' AND unique_key = 'katherine' AND changes() = 1;
INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT job_id, kind, unique_key, held_until FROM queue_unique_keys
WHERE kind = 'greet' AND unique_key = 'katherine' AND changes() = 1;
SELECT job_id FROM queue_unique_keys WHERE kind = 'greet' AND unique_key = 'katherine';
COMMIT;
