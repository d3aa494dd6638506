-- step: all
-- Another application may declare what this one has given up. $1: application, $2: digest, $3: worker, $4: whether it
-- has given up any
UPDATE queue_apps SET digest = '' WHERE app <> $1 AND $4 = 1

-- step: all
UPDATE queue_apps SET digest = $2, worker_id = $3, decided_at = UTC_TIMESTAMP(6) WHERE app = $1
