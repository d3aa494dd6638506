-- Who has each key of unique jobs. A key whose holder is over is free: nobody releases it, the next enqueue takes it.
CREATE TABLE IF NOT EXISTS queue_unique_keys (
    kind varchar(128) NOT NULL CHECK (kind <> '' AND kind NOT LIKE '% '),
    unique_key varchar(255) NOT NULL CHECK (unique_key <> '' AND unique_key NOT LIKE '% '),
    job_id bigint NOT NULL,
    -- end: the job has the key until it is over; start: as long as its fence is the one here, which a claim raises
    held_until varchar(8) NOT NULL DEFAULT 'end' CHECK (held_until IN ('start', 'end')),
    fence int NOT NULL DEFAULT 0,
    -- and in any case until this time
    free_at datetime(6),
    -- no other index: the check for duplicates in a secondary one locks gaps
    PRIMARY KEY (kind, unique_key)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The key of each unique job, whether or not it has the key now. A background duty removes the keys of jobs that are
-- nowhere any more.
CREATE TABLE IF NOT EXISTS queue_unique_jobs (
    job_id bigint NOT NULL PRIMARY KEY,
    kind varchar(128) NOT NULL,
    unique_key varchar(255) NOT NULL,
    held_until varchar(8) NOT NULL DEFAULT 'end'
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
