-- Which of them: asked only when not all were. What somebody has removed meanwhile counts as refused: a word in the log. The list is
-- that of finish_history.sql.
SELECT h.id FROM json_each($2) AS d CROSS JOIN queue_history AS h ON h.id = CAST(d.key AS INTEGER)
WHERE h.fence = iif(d.type = 'integer', d.value & 1073741823, d.value ->> 0) AND h.worker_id = $1
