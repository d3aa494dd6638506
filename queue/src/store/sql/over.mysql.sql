-- Found without a lock: a read that locks asks at each remain of a row that was removed before who may have locked it.
SELECT h.id
FROM (SELECT id FROM queue_history FORCE INDEX (queue_history_finished)
      WHERE finished_at < UTC_TIMESTAMP(6) - INTERVAL $1 MICROSECOND
      ORDER BY finished_at
      LIMIT $2) AS old
STRAIGHT_JOIN queue_history AS h FORCE INDEX (PRIMARY) ON h.id = old.id
FOR UPDATE SKIP LOCKED
