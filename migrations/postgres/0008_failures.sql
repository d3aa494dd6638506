-- How often failures of each group occurred in each hour, as the workers count them.
CREATE TABLE queue_failures (
    -- the group: a hash of the kind, and of the error without the parts that vary
    failure text COLLATE "C" NOT NULL,
    began_at timestamptz NOT NULL,
    attempts bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (failure, began_at)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX queue_failures_began ON queue_failures (began_at);

-- Who follows what ends reads the last entries.
CREATE INDEX queue_attempts_ended ON queue_attempts (ended_at);

-- How many jobs at a time a worker runs of each queue: a JSON object. NULL: a worker of an older version.
ALTER TABLE queue_workers ADD COLUMN limits json;
