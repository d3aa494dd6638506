-- Schedules of periodic jobs. A plain INSERT of (name, kind, expression) is a complete schedule. Whoever changes a row
-- by hand also sets next_at to its default, so that a worker computes it anew.
CREATE TABLE queue_schedules (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 128 AND name NOT LIKE '% '),
    -- whose code declares it; '': it was made at run time, and no deploy touches it
    app text COLLATE "C" NOT NULL DEFAULT '' CHECK (octet_length(app) <= 128),
    kind text COLLATE "C" NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 128 AND kind NOT LIKE '% '),
    queue text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (octet_length(queue) BETWEEN 1 AND 128 AND queue NOT LIKE '% '),
    args json NOT NULL DEFAULT '{}',
    priority smallint NOT NULL DEFAULT 0,
    -- NULL: the default of the worker that fires it
    max_retries integer CHECK (max_retries >= 0),
    -- five fields of cron, or `every 15m`
    expression text NOT NULL,
    zone text NOT NULL DEFAULT 'UTC',
    -- shift, skip; NULL: the default for the expression
    gap text,
    -- first, last, both; NULL: the default for the expression
    fold text,
    -- none, last, all (of the last window_s seconds)
    missed text NOT NULL DEFAULT 'last',
    window_s bigint,
    -- allow, skip
    overlap text NOT NULL DEFAULT 'allow',
    jitter_ms bigint NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
    -- no tick at or before this time
    changed_at timestamptz NOT NULL DEFAULT now(),
    paused_at timestamptz,
    -- when code ceased to declare it, or somebody removed it; retention deletes the row
    retired_at timestamptz,
    -- the next tick; the default: a worker computes it; NULL: never
    next_at timestamptz DEFAULT '1970-01-01 00:00Z',
    -- the last tick, and its job
    last_at timestamptz,
    last_job_id bigint,
    -- why it does not fire
    error text
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX queue_schedules_next ON queue_schedules (next_at) WHERE next_at IS NOT NULL;

-- What happened at each tick.
CREATE TABLE queue_ticks (
    schedule_id bigint NOT NULL,
    tick_at timestamptz NOT NULL,
    job_id bigint,
    -- fired; hand: somebody fired it; missed, overlap, failed: passed over
    outcome text NOT NULL,
    -- for ticks that were passed over in a row: how many more before this one
    skipped integer NOT NULL DEFAULT 0,
    note text,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (schedule_id, tick_at)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX queue_ticks_tick ON queue_ticks (tick_at);
CREATE INDEX queue_ticks_job ON queue_ticks (job_id);

-- The workers that look after schedules. Of the live workers of an application, the latest decides what it declares.
CREATE TABLE queue_schedulers (
    worker_id bigint PRIMARY KEY,
    app text COLLATE "C" NOT NULL,
    -- when its process joined first
    since timestamptz NOT NULL DEFAULT now()
);

-- What each application declares now.
CREATE TABLE queue_apps (
    app text COLLATE "C" PRIMARY KEY,
    -- of its schedules; '': to be compared
    digest text NOT NULL DEFAULT '',
    worker_id bigint,
    decided_at timestamptz
);
