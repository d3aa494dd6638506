-- Who has each key of unique jobs. A key whose holder is over is free: nobody releases it, the next enqueue takes it.
CREATE TABLE queue_unique_keys (
    kind text COLLATE "C" NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 128 AND kind NOT LIKE '% '),
    unique_key text COLLATE "C" NOT NULL
        CHECK (octet_length(unique_key) BETWEEN 1 AND 255 AND unique_key NOT LIKE '% '),
    job_id bigint NOT NULL,
    -- end: the job has the key until it is over; start: as long as its fence is the one here, which a claim raises
    held_until text NOT NULL DEFAULT 'end' CHECK (held_until IN ('start', 'end')),
    fence integer NOT NULL DEFAULT 0,
    -- and in any case until this time
    free_at timestamptz,
    PRIMARY KEY (kind, unique_key)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- The key of each unique job, whether or not it has the key now. A background duty removes the keys of jobs that are
-- nowhere any more.
CREATE TABLE queue_unique_jobs (
    job_id bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    held_until text NOT NULL DEFAULT 'end'
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
