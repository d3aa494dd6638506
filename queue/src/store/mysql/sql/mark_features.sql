-- Marks inserted jobs with the features that they use. $1: a list of `[id, features]`.
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', features INT PATH '$[1]')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
SET j.features = d.features
