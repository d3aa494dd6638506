-- The jobs that wait or run. Finished ones leave for queue_history, given-up ones for queue_dead, so that this table stays
-- as small as the work at hand. A plain INSERT of (kind, args) is a complete enqueue. All times are UTC.
-- Each statement can be run again, since a change of the schema is no transaction here.
CREATE TABLE IF NOT EXISTS queue_jobs (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    -- without spaces at the end, which these databases ignore when they compare
    kind varchar(128) NOT NULL CHECK (kind <> '' AND kind NOT LIKE '% '),
    queue varchar(128) NOT NULL DEFAULT 'default' CHECK (queue <> '' AND queue NOT LIKE '% '),
    args longtext NOT NULL DEFAULT ('{}') CHECK (JSON_VALID(args)),
    priority smallint NOT NULL DEFAULT 0,
    -- no month or day is zero, whatever the SQL mode lets in: nothing can be computed with such a time
    run_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
        CHECK (run_at >= '0001-01-01' AND MONTH(run_at) > 0 AND DAYOFMONTH(run_at) > 0),
    max_retries int CHECK (max_retries >= 0),
    enqueued_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
        CHECK (enqueued_at >= '0001-01-01' AND MONTH(enqueued_at) > 0 AND DAYOFMONTH(enqueued_at) > 0),
    attempt int NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 1000000000),
    -- the fence: one more at each claim, named by every write of the attempt
    fence int NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1000000000),
    -- the fence of the attempt that is known to have begun: one that never began does not count when its worker is lost
    started_fence int NOT NULL DEFAULT 0,
    -- how many workers were lost with it, since an attempt of it last ended by itself
    losses smallint NOT NULL DEFAULT 0,
    -- how many other jobs the worker may run beside the attempt in `started_fence`; NULL: any number
    max_neighbours int,
    -- 0: nobody holds it
    worker_id bigint NOT NULL DEFAULT 0,
    -- counts while somebody holds it; never NULL, because a row that changes its size at the claim costs many times the log
    claimed_at datetime(6) NOT NULL DEFAULT '1970-01-01',
    cancel_requested_at datetime(6),
    -- The claim index: rows by lane (kind, queue, priority), within a lane by due time. It knows nothing of who holds a row, as
    -- no index here does: a claim changes no indexed column, so it writes no index entry.
    KEY queue_jobs_order (kind, queue, priority, run_at, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What each claim took: the way from a worker to its jobs. A heartbeat removes the claims of which the worker holds nothing
-- any more, rescue those of workers that are gone.
CREATE TABLE IF NOT EXISTS queue_claims (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    worker_id bigint NOT NULL,
    job_ids longtext NOT NULL CHECK (JSON_VALID(job_ids)),
    KEY queue_claims_worker (worker_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Completed and cancelled jobs, until retention removes them.
CREATE TABLE IF NOT EXISTS queue_history (
    id bigint NOT NULL PRIMARY KEY,
    kind varchar(128) NOT NULL,
    queue varchar(128) NOT NULL,
    state varchar(16) NOT NULL CHECK (state IN ('completed', 'cancelled')),
    args longtext NOT NULL,
    priority smallint NOT NULL,
    max_retries int,
    attempt int NOT NULL,
    fence int NOT NULL,
    worker_id bigint NOT NULL,
    enqueued_at datetime(6) NOT NULL,
    run_at datetime(6) NOT NULL,
    -- of the last attempt; NULL when it was cancelled before any
    started_at datetime(6),
    finished_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    result longtext,
    error text,
    KEY queue_history_finished (finished_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Dead letters: jobs set aside after their last attempt, until somebody acts.
CREATE TABLE IF NOT EXISTS queue_dead (
    id bigint NOT NULL PRIMARY KEY,
    kind varchar(128) NOT NULL,
    queue varchar(128) NOT NULL,
    args longtext NOT NULL CHECK (JSON_VALID(args)),
    priority smallint NOT NULL,
    max_retries int,
    attempt int NOT NULL,
    fence int NOT NULL,
    worker_id bigint NOT NULL,
    enqueued_at datetime(6) NOT NULL,
    run_at datetime(6) NOT NULL,
    started_at datetime(6),
    finished_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    error text NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Every attempt that did not complete its job (the completing one is in the history row itself).
CREATE TABLE IF NOT EXISTS queue_attempts (
    job_id bigint NOT NULL,
    fence int NOT NULL,
    attempt int NOT NULL,
    worker_id bigint NOT NULL,
    started_at datetime(6) NOT NULL,
    ended_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    outcome varchar(16) NOT NULL,
    error text,
    PRIMARY KEY (job_id, fence)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Worker processes.
CREATE TABLE IF NOT EXISTS queue_workers (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    host varchar(255) NOT NULL,
    pid bigint NOT NULL,
    concurrency int NOT NULL,
    queues longtext NOT NULL,
    kinds longtext NOT NULL,
    started_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- its last heartbeat, once it has ended; before that see queue_heartbeats
    heartbeat_at datetime(6),
    -- when it ended or was declared dead
    stopped_at datetime(6),
    KEY queue_workers_alive (stopped_at, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The last heartbeat of each worker, and its lease. There is no other index: a changed entry stays as long as an old
-- snapshot does, and every reader of that index walks over it.
CREATE TABLE IF NOT EXISTS queue_heartbeats (
    worker_id bigint NOT NULL PRIMARY KEY,
    heartbeat_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- the lease: past this, others take its jobs back
    expires_at datetime(6) NOT NULL,
    -- with its last heartbeat its session held the lock that says that it lives: in this run of the server. NULL: it held none
    server_run bigint,
    -- by then its next heartbeat comes
    next_heartbeat_at datetime(6)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Queues that are paused.
CREATE TABLE IF NOT EXISTS queue_paused (
    queue varchar(128) NOT NULL PRIMARY KEY,
    paused_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- All jobs in one shape, for people: columns are stable.
CREATE OR REPLACE VIEW queue_all AS
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state,
       priority, attempt, max_retries, enqueued_at, run_at,
       IF(worker_id <> 0, claimed_at, NULL) AS started_at, CAST(NULL AS datetime(6)) AS finished_at,
       NULLIF(worker_id, 0) AS worker_id, args, NULL AS result, NULL AS error
FROM queue_jobs
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       NULLIF(worker_id, 0), args, result, error
FROM queue_history
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       NULLIF(worker_id, 0), args, NULL, error
FROM queue_dead;

-- Jobs counted by kind, queue and state; oldest: due time while waiting, start while running, end when over.
CREATE OR REPLACE VIEW queue_stats AS
SELECT kind, queue, state, COUNT(*) AS jobs,
       MIN(CASE WHEN state = 'running' THEN started_at WHEN finished_at IS NULL THEN run_at ELSE finished_at END) AS oldest
FROM queue_all GROUP BY kind, queue, state;
