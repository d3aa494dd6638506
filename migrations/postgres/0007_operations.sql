-- How many attempts started and ended in each minute and in each hour, as the workers count them.
CREATE TABLE queue_tallies (
    -- how many seconds a row covers: 60 or 3600
    span integer NOT NULL,
    began_at timestamptz NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    -- started, or how they ended
    outcome text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    -- of those that started: how long after their due time; of those that ended: how long they ran
    total_us bigint NOT NULL,
    longest_us bigint NOT NULL,
    PRIMARY KEY (span, began_at, queue, kind, outcome)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- What was done through the administration. One on many jobs goes on from here if its program ends.
CREATE TABLE queue_operations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    reason text,
    -- such as send_back
    action text NOT NULL,
    -- what it changes and how: JSON
    details text NOT NULL,
    -- if it changes one job
    job_id bigint,
    state text NOT NULL DEFAULT 'done' CHECK (state IN ('running', 'done', 'stopped')),
    changed bigint NOT NULL DEFAULT 0,
    -- it has looked at the jobs up to this one
    last_id bigint NOT NULL DEFAULT -9223372036854775807,
    -- when its program last said that it runs it
    beat_at timestamptz,
    ended_at timestamptz
);
CREATE INDEX queue_operations_job ON queue_operations (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX queue_operations_running ON queue_operations (beat_at) WHERE state = 'running';

-- The jobs that an operation could not change.
CREATE TABLE queue_refusals (
    operation_id bigint NOT NULL,
    job_id bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (operation_id, job_id)
);
