-- How often failures of each group occurred in each hour, as the workers count them.
CREATE TABLE queue_failures (
    -- the group: a hash of the kind, and of the error without the parts that vary
    failure TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (failure, began_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_failures_began ON queue_failures (began_at);

-- Who follows what ends reads the last entries.
CREATE INDEX queue_attempts_ended ON queue_attempts (ended_at);

-- How many jobs at a time a worker runs of each queue: a JSON object. NULL: a worker of an older version.
ALTER TABLE queue_workers ADD COLUMN limits TEXT;
