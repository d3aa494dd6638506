-- step: all
-- Locks the jobs of the batch that this worker still holds under the same fence, so that the following statements see
-- the same jobs. (MySQL rejects FOR UPDATE with a table function that is not wrapped.)
SELECT j.id
FROM (SELECT t.* FROM JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS t) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE j.worker_id = $1 AND j.fence = d.fence
FOR UPDATE

-- step: all
UPDATE JSON_TABLE($2, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fence INT PATH '$.fence', max_neighbours INT PATH '$.max_neighbours')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.started_fence = j.fence, j.max_neighbours = d.max_neighbours
WHERE j.worker_id = $1 AND j.fence = d.fence
