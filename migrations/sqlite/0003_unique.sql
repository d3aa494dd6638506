-- Who has each key of unique jobs. A key whose holder is over is free: nobody releases it, the next enqueue takes it.
CREATE TABLE queue_unique_keys (
    kind TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) BETWEEN 1 AND 128 AND substr(CAST(kind AS BLOB), -1) <> x'20'),
    unique_key TEXT NOT NULL
        CHECK (length(CAST(unique_key AS BLOB)) BETWEEN 1 AND 255 AND substr(CAST(unique_key AS BLOB), -1) <> x'20'),
    job_id INTEGER NOT NULL,
    -- end: the job has the key until it is over; start: as long as its fence is the one here, which a claim raises
    held_until TEXT NOT NULL DEFAULT 'end' CHECK (held_until IN ('start', 'end')),
    fence INTEGER NOT NULL DEFAULT 0,
    -- and in any case until this time
    free_at INTEGER,
    PRIMARY KEY (kind, unique_key)
) STRICT, WITHOUT ROWID;

-- The key of each unique job, whether or not it has the key now. A background duty removes the keys of jobs that are
-- nowhere any more.
CREATE TABLE queue_unique_jobs (
    job_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    unique_key TEXT NOT NULL,
    held_until TEXT NOT NULL DEFAULT 'end'
) STRICT;
