-- Marks inserted jobs with the features that they use. $1: a list of `[id, features]`.
UPDATE queue_jobs SET features = d.value ->> 1 FROM json_each($1) AS d WHERE queue_jobs.id = d.value ->> 0
