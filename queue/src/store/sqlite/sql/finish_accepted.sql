-- Which ends were accepted. Runs only if some were not. A row that was removed meanwhile counts as refused, which costs
-- a log line. $2: see finish_history.sql.
SELECT h.id FROM json_each($2) AS d CROSS JOIN queue_history AS h ON h.id = CAST(d.key AS INTEGER)
WHERE h.fence = iif(d.type = 'integer', d.value & 1073741823, d.value ->> 0) AND h.worker_id = $1
