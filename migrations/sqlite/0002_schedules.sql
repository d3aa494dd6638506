-- Schedules of periodic jobs. A plain INSERT of (name, kind, expression) is a complete schedule. Whoever changes a row
-- by hand also sets next_at to its default, so that a worker computes it anew.
CREATE TABLE queue_schedules (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE
        CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128 AND substr(CAST(name AS BLOB), -1) <> x'20'),
    -- whose code declares it; '': it was made at run time, and no deploy touches it
    app TEXT NOT NULL DEFAULT '' CHECK (length(CAST(app AS BLOB)) <= 128),
    kind TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) BETWEEN 1 AND 128 AND substr(CAST(kind AS BLOB), -1) <> x'20'),
    queue TEXT NOT NULL DEFAULT 'default'
        CHECK (length(CAST(queue AS BLOB)) BETWEEN 1 AND 128 AND substr(CAST(queue AS BLOB), -1) <> x'20'),
    args TEXT NOT NULL DEFAULT '{}' CONSTRAINT "args must be valid JSON" CHECK (json_valid(args)),
    priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    -- NULL: the default of the worker that fires it
    max_retries INTEGER CHECK (max_retries BETWEEN 0 AND 2147483647),
    -- five fields of cron, or `every 15m`
    expression TEXT NOT NULL,
    zone TEXT NOT NULL DEFAULT 'UTC',
    -- shift, skip; NULL: the default for the expression
    gap TEXT,
    -- first, last, both; NULL: the default for the expression
    fold TEXT,
    -- none, last, all (of the last window_s seconds)
    missed TEXT NOT NULL DEFAULT 'last',
    window_s INTEGER,
    -- allow, skip
    overlap TEXT NOT NULL DEFAULT 'allow',
    jitter_ms INTEGER NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
    -- no tick at or before this time
    changed_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    paused_at INTEGER,
    -- when code ceased to declare it, or somebody removed it; retention deletes the row
    retired_at INTEGER,
    -- the next tick; the default: a worker computes it; NULL: never
    next_at INTEGER DEFAULT 0,
    -- the last tick, and its job
    last_at INTEGER,
    last_job_id INTEGER,
    -- why it does not fire
    error TEXT
) STRICT;
CREATE INDEX queue_schedules_next ON queue_schedules (next_at) WHERE next_at IS NOT NULL;

-- What happened at each tick.
CREATE TABLE queue_ticks (
    schedule_id INTEGER NOT NULL,
    tick_at INTEGER NOT NULL,
    job_id INTEGER,
    -- fired; hand: somebody fired it; missed, overlap, failed: passed over
    outcome TEXT NOT NULL,
    -- for ticks that were passed over in a row: how many more before this one
    skipped INTEGER NOT NULL DEFAULT 0,
    note TEXT,
    at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (schedule_id, tick_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_ticks_tick ON queue_ticks (tick_at);
CREATE INDEX queue_ticks_job ON queue_ticks (job_id);

-- The workers that look after schedules. Of the live workers of an application, the latest decides what it declares.
CREATE TABLE queue_schedulers (
    worker_id INTEGER PRIMARY KEY,
    app TEXT NOT NULL,
    -- when its process joined first
    since INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
) STRICT;

-- What each application declares now.
CREATE TABLE queue_apps (
    app TEXT PRIMARY KEY,
    -- of its schedules; '': to be compared
    digest TEXT NOT NULL DEFAULT '',
    worker_id INTEGER,
    decided_at INTEGER
) STRICT, WITHOUT ROWID;
