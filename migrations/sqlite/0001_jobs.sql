-- Waiting and running jobs. Finished jobs move to queue_history, dead letters to queue_dead: this table stays small.
-- A plain INSERT of (kind, args) is a complete enqueue.
-- All times are whole milliseconds since 1970, UTC. CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) is now.
CREATE TABLE queue_jobs (
    -- AUTOINCREMENT: the id of a committed row is never reused, although rows leave this table
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) BETWEEN 1 AND 128 AND substr(CAST(kind AS BLOB), -1) <> x'20'),
    queue TEXT NOT NULL DEFAULT 'default'
        CHECK (length(CAST(queue AS BLOB)) BETWEEN 1 AND 128 AND substr(CAST(queue AS BLOB), -1) <> x'20'),
    args TEXT NOT NULL DEFAULT '{}' CONSTRAINT "args must be valid JSON" CHECK (json_valid(args)),
    priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    run_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
        CONSTRAINT "run_at must be milliseconds since 1970 (multiply unixepoch() by 1000)"
        CHECK (run_at NOT BETWEEN 1 AND 99999999999),
    max_retries INTEGER CHECK (max_retries BETWEEN 0 AND 2147483647),
    enqueued_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 1000000000),
    -- each claim raises it by one, and every write of the attempt names it
    fence INTEGER NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1000000000),
    -- fence of the last attempt known to have begun; an attempt that never began does not count if its worker is lost
    started_fence INTEGER NOT NULL DEFAULT 0,
    -- workers lost in a row while they held the job; an attempt that ends by itself resets it
    losses INTEGER NOT NULL DEFAULT 0,
    -- which features of this library act on the job when it is enqueued, ends or is removed: one bit for each
    features INTEGER NOT NULL DEFAULT 0,
    -- most other jobs that may run at the same time as the attempt in `started_fence`; NULL: no limit
    max_neighbours INTEGER,
    -- 0: no worker holds the job
    worker_id INTEGER NOT NULL DEFAULT 0,
    claimed_at INTEGER,
    cancel_requested_at INTEGER
) STRICT;

-- The claim index: waiting rows by lane (kind, queue, priority), within a lane by due time and id. (SQLite appends the
-- id to every index entry.)
CREATE INDEX queue_jobs_waiting ON queue_jobs (kind, queue, priority, run_at) WHERE worker_id = 0;
-- Waiting rows with long arguments. A claim rewrites whole rows, so it takes few of these at once.
CREATE INDEX queue_jobs_long ON queue_jobs (kind, queue, priority, run_at)
    WHERE worker_id = 0 AND length(CAST(args AS BLOB)) > 16384;
-- Held rows by worker: for rescue, and for the jobs of one worker.
CREATE INDEX queue_jobs_held ON queue_jobs (worker_id) WHERE worker_id <> 0;

-- Completed and cancelled jobs, until retention removes them.
CREATE TABLE queue_history (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('completed', 'cancelled')),
    args TEXT NOT NULL,
    priority INTEGER NOT NULL,
    features INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    worker_id INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    -- of the last attempt; NULL if the job was cancelled before its first
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    result TEXT,
    error TEXT
) STRICT;
CREATE INDEX queue_history_finished ON queue_history (finished_at);

-- Dead letters: jobs that failed too often or could not run. They stay until somebody acts.
CREATE TABLE queue_dead (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    args TEXT NOT NULL CONSTRAINT "args must be valid JSON" CHECK (json_valid(args)),
    priority INTEGER NOT NULL,
    features INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    worker_id INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    error TEXT NOT NULL
) STRICT;

-- A row that enters one of these tables leaves queue_jobs in the same statement, if fence and worker match.
CREATE TRIGGER queue_history_takes AFTER INSERT ON queue_history
BEGIN
    DELETE FROM queue_jobs WHERE id = NEW.id AND fence = NEW.fence AND worker_id = NEW.worker_id;
END;
CREATE TRIGGER queue_dead_takes AFTER INSERT ON queue_dead
BEGIN
    DELETE FROM queue_jobs WHERE id = NEW.id AND fence = NEW.fence AND worker_id = NEW.worker_id;
END;

-- Attempts that did not complete their job. (The completing attempt is in the history row itself.)
CREATE TABLE queue_attempts (
    job_id INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker_id INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (job_id, fence)
) STRICT, WITHOUT ROWID;

-- Worker processes.
CREATE TABLE queue_workers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    queues TEXT NOT NULL,
    kinds TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    -- the last heartbeat of a stopped worker; queue_heartbeats has that of a live one
    heartbeat_at INTEGER,
    -- when it stopped or was declared lost
    stopped_at INTEGER
) STRICT;
CREATE INDEX queue_workers_alive ON queue_workers (id) WHERE stopped_at IS NULL;

-- The last heartbeat of each worker, and its lease.
CREATE TABLE queue_heartbeats (
    worker_id INTEGER PRIMARY KEY,
    heartbeat_at INTEGER NOT NULL,
    -- end of the lease; after it, other workers rescue the jobs
    expires_at INTEGER NOT NULL
) STRICT;

-- Paused queues.
CREATE TABLE queue_paused (
    queue TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- All jobs in one shape, for people. Its columns are stable, its times are text (UTC).
CREATE VIEW queue_all AS
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running'
            WHEN run_at > (julianday('now') - 2440587.5) * 86400000 THEN 'scheduled' ELSE 'ready' END AS state,
       priority, attempt, max_retries,
       strftime('%Y-%m-%d %H:%M:%f', enqueued_at / 1000.0, 'unixepoch') AS enqueued_at,
       strftime('%Y-%m-%d %H:%M:%f', run_at / 1000.0, 'unixepoch') AS run_at,
       strftime('%Y-%m-%d %H:%M:%f', claimed_at / 1000.0, 'unixepoch') AS started_at,
       NULL AS finished_at, nullif(worker_id, 0) AS worker_id, args, NULL AS result,
       CASE WHEN fence > 0 THEN
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1) END AS error,
       coalesce(worker_id = 0 AND fence > 0
       AND (SELECT a.outcome FROM queue_attempts AS a
            WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
            ORDER BY a.fence DESC LIMIT 1)
           IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost'), 0) AS retrying
FROM queue_jobs AS j
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries,
       strftime('%Y-%m-%d %H:%M:%f', enqueued_at / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', run_at / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', started_at / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', finished_at / 1000.0, 'unixepoch'),
       nullif(worker_id, 0), args, result, error, 0
FROM queue_history
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries,
       strftime('%Y-%m-%d %H:%M:%f', enqueued_at / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', run_at / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', started_at / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', finished_at / 1000.0, 'unixepoch'),
       nullif(worker_id, 0), args, NULL, error, 0
FROM queue_dead;

-- Job counts by kind, queue and state. oldest: due time of waiting, start of running, end of finished jobs.
CREATE VIEW queue_stats AS
SELECT kind, queue, state, count(*) AS jobs,
       min(CASE WHEN state = 'running' THEN started_at
                WHEN finished_at IS NULL THEN run_at ELSE finished_at END) AS oldest,
       count(CASE WHEN retrying THEN 1 END) AS retrying
FROM queue_all GROUP BY kind, queue, state;
