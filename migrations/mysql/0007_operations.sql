-- How many attempts started and ended in each minute and in each hour, as the workers count them.
CREATE TABLE IF NOT EXISTS queue_tallies (
    -- how many seconds a row covers: 60 or 3600
    span int NOT NULL,
    began_at datetime(6) NOT NULL,
    queue varchar(128) NOT NULL,
    kind varchar(128) NOT NULL,
    -- started, or how they ended
    outcome varchar(16) NOT NULL,
    attempts bigint NOT NULL,
    -- of those that started: how long after their due time; of those that ended: how long they ran
    total_us bigint NOT NULL,
    longest_us bigint NOT NULL,
    PRIMARY KEY (span, began_at, queue, kind, outcome)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What was done through the administration. One on many jobs goes on from here if its program ends.
CREATE TABLE IF NOT EXISTS queue_operations (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    started_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    actor varchar(255) NOT NULL,
    reason text,
    -- such as send_back
    action varchar(32) NOT NULL,
    -- what it changes and how: JSON
    details mediumtext NOT NULL,
    -- if it changes one job
    job_id bigint,
    state varchar(16) NOT NULL DEFAULT 'done' CHECK (state IN ('running', 'done', 'stopped')),
    changed bigint NOT NULL DEFAULT 0,
    -- it has looked at the jobs up to this one
    last_id bigint NOT NULL DEFAULT -9223372036854775807,
    -- when its program last said that it runs it
    beat_at datetime(6),
    ended_at datetime(6),
    KEY queue_operations_job (job_id),
    KEY queue_operations_running (state, beat_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The jobs that an operation could not change.
CREATE TABLE IF NOT EXISTS queue_refusals (
    operation_id bigint NOT NULL,
    job_id bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (operation_id, job_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
