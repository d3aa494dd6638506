-- Marks inserted jobs with the features that they use. $1: a list of `[id, features]`.
UPDATE queue_jobs AS j SET features = (d.pair ->> 1)::smallint
FROM json_array_elements($1::json) AS d (pair)
WHERE j.id = ANY (ARRAY(SELECT (pair ->> 0)::bigint FROM json_array_elements($1::json) AS d (pair)))
  AND j.id = (d.pair ->> 0)::bigint
