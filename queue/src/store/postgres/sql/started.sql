-- Records that attempts have begun. For "IS TRUE" see bury.sql.
WITH batch AS MATERIALIZED (
    SELECT * FROM json_to_recordset($2::json) AS d (id bigint, fence integer, max_neighbours integer)
)
UPDATE queue_jobs AS j
SET started_fence = fence, max_neighbours = (SELECT d.max_neighbours FROM batch AS d WHERE d.id = j.id LIMIT 1)
WHERE j.id = ANY (ARRAY(SELECT id FROM batch)) AND j.worker_id = $1
  AND ((j.id, j.fence) IN (SELECT id, fence FROM batch)) IS TRUE
RETURNING j.id
