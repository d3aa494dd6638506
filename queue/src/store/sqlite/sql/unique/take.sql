-- Takes the keys that are free, and inserts their jobs: several statements in one call. $1 to $5: kind, queue,
-- priority, retries and features of all; $6, $7: until when they have their keys; $8: the keys; $9: the arguments;
-- $10: delays, or NULL; $11: times, or NULL. The jobs get the ids behind the last one, in their order.

-- Notes from before somebody set the ids back. Hardly ever any. From here on, this transaction is the only writer.
DELETE FROM queue_unique_jobs
WHERE job_id > (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)));

INSERT INTO queue_unique_keys AS k (kind, unique_key, job_id, held_until, free_at)
SELECT $1, w.value, last.id + 1 + w.key, $6, clock.now + ($7 + 2999) / 1000
FROM (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
CROSS JOIN json_each($8) AS w
WHERE true
ON CONFLICT DO UPDATE
SET job_id = excluded.job_id, held_until = excluded.held_until, fence = 0, free_at = excluded.free_at
WHERE (k.free_at IS NULL OR k.free_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
  AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j
      WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence));

-- Which of the keys went to these jobs. If all did, the keys need not be read again. changes() is that of the
-- statement just before: nothing may come between these three.
INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT last.id + 1 + w.key, $1, w.value, $6
FROM (SELECT changes() = json_array_length($8) AS all_are_free) AS taken
CROSS JOIN (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN json_each($8) AS w
WHERE taken.all_are_free;

INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until)
SELECT k.job_id, k.kind, k.unique_key, k.held_until
FROM (SELECT changes() = 0 AS some_are_taken) AS taken
CROSS JOIN (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN json_each($8) AS w
CROSS JOIN queue_unique_keys AS k ON k.kind = $1 AND k.unique_key = w.value
WHERE taken.some_are_taken AND k.job_id = last.id + 1 + w.key;

-- A row: the id that the first one gets, and the ids of those that are written, unless all are.
SELECT last.id + 1,
       CASE WHEN (SELECT count(*) FROM queue_unique_jobs WHERE job_id > last.id) < json_array_length($8)
            THEN (SELECT json_group_array(job_id) FROM queue_unique_jobs WHERE job_id > last.id) END
FROM (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last;

-- Delays: see insert_one_later.sql.
WITH delays AS MATERIALIZED (SELECT key, iif(value > 0, (value + 2999) / 1000, 0) AS ms FROM json_each($10)),
    times AS MATERIALIZED (SELECT key, (value + 999) / 1000 AS ms FROM json_each($11))
INSERT INTO queue_jobs (id, kind, queue, priority, max_retries, features, args, run_at, enqueued_at)
SELECT n.job_id, $1, $2, $3, $4, $5, w.value,
       CASE WHEN $11 IS NOT NULL THEN (SELECT ms FROM times WHERE times.key = w.key)
            WHEN $10 IS NOT NULL THEN clock.now + (SELECT ms FROM delays WHERE delays.key = w.key)
            ELSE clock.now END,
       clock.now
FROM (SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue_jobs'), 0),
                 coalesce((SELECT max(id) FROM queue_jobs), 0)) AS id) AS last
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS clock
CROSS JOIN json_each($9) AS w
CROSS JOIN queue_unique_jobs AS n ON n.job_id = last.id + 1 + w.key
