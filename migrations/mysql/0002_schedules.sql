-- Schedules of periodic jobs. A plain INSERT of (name, kind, expression) is a complete schedule. Whoever changes a row
-- by hand also sets next_at to its default, so that a worker computes it anew. All times are UTC.
CREATE TABLE IF NOT EXISTS queue_schedules (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name varchar(128) NOT NULL UNIQUE CHECK (name <> '' AND name NOT LIKE '% '),
    -- whose code declares it; '': it was made at run time, and no deploy touches it
    app varchar(128) NOT NULL DEFAULT '',
    kind varchar(128) NOT NULL CHECK (kind <> '' AND kind NOT LIKE '% '),
    queue varchar(128) NOT NULL DEFAULT 'default' CHECK (queue <> '' AND queue NOT LIKE '% '),
    args longtext NOT NULL DEFAULT ('{}') CHECK (JSON_VALID(args)),
    priority smallint NOT NULL DEFAULT 0,
    -- NULL: the default of the worker that fires it
    max_retries int CHECK (max_retries >= 0),
    -- five fields of cron, or `every 15m`
    expression varchar(256) NOT NULL,
    zone varchar(64) NOT NULL DEFAULT 'UTC',
    -- shift, skip; NULL: the default for the expression
    gap varchar(16),
    -- first, last, both; NULL: the default for the expression
    fold varchar(16),
    -- none, last, all (of the last window_s seconds)
    missed varchar(16) NOT NULL DEFAULT 'last',
    window_s bigint,
    -- allow, skip
    overlap varchar(16) NOT NULL DEFAULT 'allow',
    jitter_ms bigint NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
    -- no tick at or before this time
    changed_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    paused_at datetime(6),
    -- when code ceased to declare it, or somebody removed it; retention deletes the row
    retired_at datetime(6),
    -- the next tick; the default: a worker computes it; NULL: never
    next_at datetime(6) DEFAULT '1970-01-01',
    -- the last tick, and its job
    last_at datetime(6),
    last_job_id bigint,
    -- why it does not fire
    error text,
    KEY queue_schedules_next (next_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What happened at each tick.
CREATE TABLE IF NOT EXISTS queue_ticks (
    schedule_id bigint NOT NULL,
    tick_at datetime(6) NOT NULL,
    job_id bigint,
    -- fired; hand: somebody fired it; missed, overlap, failed: passed over
    outcome varchar(16) NOT NULL,
    -- for ticks that were passed over in a row: how many more before this one
    skipped int NOT NULL DEFAULT 0,
    note text,
    at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (schedule_id, tick_at),
    KEY queue_ticks_tick (tick_at),
    KEY queue_ticks_job (job_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The workers that look after schedules. Of the live workers of an application, the latest decides what it declares.
CREATE TABLE IF NOT EXISTS queue_schedulers (
    worker_id bigint NOT NULL PRIMARY KEY,
    app varchar(128) NOT NULL,
    -- when its process joined first
    since datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What each application declares now.
CREATE TABLE IF NOT EXISTS queue_apps (
    app varchar(128) NOT NULL PRIMARY KEY,
    -- of its schedules; '': to be compared
    digest varchar(64) NOT NULL DEFAULT '',
    worker_id bigint,
    decided_at datetime(6)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
