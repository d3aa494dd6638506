-- Waiting and running jobs. Finished jobs move to queue_history, dead letters to queue_dead: this table stays small.
-- A plain INSERT of (kind, args) is a complete enqueue. All times are UTC.
-- Every statement can be repeated, because schema changes are not transactional here.
CREATE TABLE IF NOT EXISTS queue_jobs (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    -- no trailing spaces: these databases ignore them in comparisons
    kind varchar(128) NOT NULL CHECK (kind <> '' AND kind NOT LIKE '% '),
    queue varchar(128) NOT NULL DEFAULT 'default' CHECK (queue <> '' AND queue NOT LIKE '% '),
    args longtext NOT NULL DEFAULT ('{}') CHECK (JSON_VALID(args)),
    priority smallint NOT NULL DEFAULT 0,
    -- no zero month or day, whatever the SQL mode allows: such a time cannot be computed with
    run_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
        CHECK (run_at >= '0001-01-01' AND MONTH(run_at) > 0 AND DAYOFMONTH(run_at) > 0),
    max_retries int CHECK (max_retries >= 0),
    enqueued_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
        CHECK (enqueued_at >= '0001-01-01' AND MONTH(enqueued_at) > 0 AND DAYOFMONTH(enqueued_at) > 0),
    attempt int NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 1000000000),
    -- each claim raises it by one, and every write of the attempt names it
    fence int NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1000000000),
    -- fence of the last attempt known to have begun; an attempt that never began does not count if its worker is lost
    started_fence int NOT NULL DEFAULT 0,
    -- workers lost in a row while they held the job; an attempt that ends by itself resets it
    losses smallint NOT NULL DEFAULT 0,
    -- which features of this library act on the job when it is enqueued, ends or is removed: one bit for each
    features smallint NOT NULL DEFAULT 0,
    -- most other jobs that may run at the same time as the attempt in `started_fence`; NULL: no limit
    max_neighbours int,
    -- 0: no worker holds the job
    worker_id bigint NOT NULL DEFAULT 0,
    -- valid while a worker holds the job; not NULL: a row that changes size at the claim costs many times the log
    claimed_at datetime(6) NOT NULL DEFAULT '1970-01-01',
    cancel_requested_at datetime(6),
    -- The claim index: by lane (kind, queue, priority), within a lane by due time and id. No index has a column that a
    -- claim changes, so a claim writes no index entry.
    KEY queue_jobs_order (kind, queue, priority, run_at, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Claim records: the jobs that each claim took. They lead from a worker to its jobs. A heartbeat removes the records of
-- its worker without held jobs; rescue removes those of lost workers.
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
    features smallint NOT NULL DEFAULT 0,
    max_retries int,
    attempt int NOT NULL,
    fence int NOT NULL,
    worker_id bigint NOT NULL,
    enqueued_at datetime(6) NOT NULL,
    run_at datetime(6) NOT NULL,
    -- of the last attempt; NULL if the job was cancelled before its first
    started_at datetime(6),
    finished_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    result longtext,
    error text,
    KEY queue_history_finished (finished_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Dead letters: jobs that failed too often or could not run. They stay until somebody acts.
CREATE TABLE IF NOT EXISTS queue_dead (
    id bigint NOT NULL PRIMARY KEY,
    kind varchar(128) NOT NULL,
    queue varchar(128) NOT NULL,
    args longtext NOT NULL CHECK (JSON_VALID(args)),
    priority smallint NOT NULL,
    features smallint NOT NULL DEFAULT 0,
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

-- Attempts that did not complete their job. (The completing attempt is in the history row itself.)
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
    -- the last heartbeat of a stopped worker; queue_heartbeats has that of a live one
    heartbeat_at datetime(6),
    -- when it stopped or was declared lost
    stopped_at datetime(6),
    KEY queue_workers_alive (stopped_at, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The last heartbeat of each worker, and its lease. No secondary index: while an old snapshot is open, each heartbeat
-- would leave a dead entry in it for every reader to walk over.
CREATE TABLE IF NOT EXISTS queue_heartbeats (
    worker_id bigint NOT NULL PRIMARY KEY,
    heartbeat_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- end of the lease; after it, other workers rescue the jobs
    expires_at datetime(6) NOT NULL,
    -- server run in which its session held the liveness lock at its last heartbeat; NULL: it held none
    server_run bigint,
    -- when its next heartbeat is due
    next_heartbeat_at datetime(6)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Paused queues.
CREATE TABLE IF NOT EXISTS queue_paused (
    queue varchar(128) NOT NULL PRIMARY KEY,
    paused_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- All jobs in one shape, for people. Its columns are stable.
CREATE OR REPLACE VIEW queue_all AS
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > UTC_TIMESTAMP(6) THEN 'scheduled' ELSE 'ready' END AS state,
       priority, attempt, max_retries, enqueued_at, run_at,
       IF(worker_id <> 0, claimed_at, NULL) AS started_at, CAST(NULL AS datetime(6)) AS finished_at,
       NULLIF(worker_id, 0) AS worker_id, args, NULL AS result,
       CASE WHEN fence > 0 THEN
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1) END AS error,
       COALESCE(worker_id = 0 AND fence > 0
       AND (SELECT a.outcome FROM queue_attempts AS a
            WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
            ORDER BY a.fence DESC LIMIT 1)
           IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost'), 0) AS retrying
FROM queue_jobs AS j
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       NULLIF(worker_id, 0), args, result, error, 0
FROM queue_history
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       NULLIF(worker_id, 0), args, NULL, error, 0
FROM queue_dead;

-- Job counts by kind, queue and state. oldest: due time of waiting, start of running, end of finished jobs.
CREATE OR REPLACE VIEW queue_stats AS
SELECT kind, queue, state, COUNT(*) AS jobs,
       MIN(CASE WHEN state = 'running' THEN started_at
                WHEN finished_at IS NULL THEN run_at ELSE finished_at END) AS oldest,
       COUNT(CASE WHEN retrying THEN 1 END) AS retrying
FROM queue_all GROUP BY kind, queue, state;
