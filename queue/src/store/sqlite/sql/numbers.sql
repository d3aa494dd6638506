-- A row if ids were set back: the newest job has a lower id than a finished job enqueued a minute or more before.
SELECT 1
FROM (SELECT id, enqueued_at FROM queue_jobs ORDER BY id DESC LIMIT 1) AS new
JOIN (SELECT * FROM (SELECT id, enqueued_at FROM queue_history ORDER BY id DESC LIMIT 1)
      UNION ALL
      SELECT * FROM (SELECT id, enqueued_at FROM queue_dead ORDER BY id DESC LIMIT 1)) AS old
  ON new.id < old.id AND new.enqueued_at > old.enqueued_at + 60000
