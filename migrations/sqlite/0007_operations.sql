-- How many attempts started and ended in each minute and in each hour, as the workers count them.
CREATE TABLE queue_tallies (
    -- how many seconds a row covers: 60 or 3600
    span INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- started, or how they ended
    outcome TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    -- of those that started: how long after their due time; of those that ended: how long they ran
    total_us INTEGER NOT NULL,
    longest_us INTEGER NOT NULL,
    PRIMARY KEY (span, began_at, queue, kind, outcome)
) STRICT, WITHOUT ROWID;

-- What was done through the administration. One on many jobs goes on from here if its program ends.
CREATE TABLE queue_operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    actor TEXT NOT NULL,
    reason TEXT,
    -- such as send_back
    action TEXT NOT NULL,
    -- what it changes and how: JSON
    details TEXT NOT NULL,
    -- if it changes one job
    job_id INTEGER,
    state TEXT NOT NULL DEFAULT 'done' CHECK (state IN ('running', 'done', 'stopped')),
    changed INTEGER NOT NULL DEFAULT 0,
    -- it has looked at the jobs up to this one
    last_id INTEGER NOT NULL DEFAULT -9223372036854775807,
    -- when its program last said that it runs it
    beat_at INTEGER,
    ended_at INTEGER
) STRICT;
CREATE INDEX queue_operations_job ON queue_operations (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX queue_operations_running ON queue_operations (beat_at) WHERE state = 'running';

-- The jobs that an operation could not change.
CREATE TABLE queue_refusals (
    operation_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (operation_id, job_id)
) STRICT, WITHOUT ROWID;
