-- Which of them: asked only when not all were.
SELECT h.id FROM json_each($2) AS d CROSS JOIN queue_history AS h ON h.id = d.value ->> 0
WHERE h.lease = d.value ->> 1 AND h.worker_id = $1
