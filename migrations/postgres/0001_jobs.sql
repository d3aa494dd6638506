-- Waiting and running jobs. Finished jobs move to queue_history, dead letters to queue_dead: this table stays small.
-- A plain INSERT of (kind, args) is a complete enqueue.
CREATE TABLE queue_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- COLLATE "C": an upgrade of the system's collations cannot change the order of the claim index
    kind text COLLATE "C" NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 128 AND kind NOT LIKE '% '),
    queue text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (octet_length(queue) BETWEEN 1 AND 128 AND queue NOT LIKE '% '),
    args json NOT NULL DEFAULT '{}',
    priority smallint NOT NULL DEFAULT 0,
    run_at timestamptz NOT NULL DEFAULT now() CHECK (run_at >= '0001-01-01 00:00Z' AND run_at < 'infinity'),
    max_retries integer CHECK (max_retries >= 0),
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 1000000000),
    -- each claim raises it by one, and every write of the attempt names it
    fence integer NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1000000000),
    -- fence of the last attempt known to have begun; an attempt that never began does not count if its worker is lost
    started_fence integer NOT NULL DEFAULT 0,
    -- workers lost in a row while they held the job; an attempt that ends by itself resets it
    losses smallint NOT NULL DEFAULT 0,
    -- which features of this library act on the job when it is enqueued, ends or is removed: one bit for each
    features smallint NOT NULL DEFAULT 0,
    -- most other jobs that may run at the same time as the attempt in `started_fence`; NULL: no limit
    max_neighbours integer,
    -- 0: no worker holds the job
    worker_id bigint NOT NULL DEFAULT 0,
    claimed_at timestamptz,
    cancel_requested_at timestamptz
) WITH (
    -- half of each page stays free, so that a claimed row fits beside its old version (HOT)
    fillfactor = 50,
    -- Rows live for milliseconds: vacuum by count, not by share of the table, and without pauses. With pauses the table
    -- grows faster than it is vacuumed at 30,000 jobs/s.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    -- arguments of more than 2 kB are stored here, and are deleted as fast
    toast.autovacuum_vacuum_scale_factor = 0.01,
    toast.autovacuum_vacuum_threshold = 2000,
    toast.autovacuum_vacuum_cost_delay = 0,
    -- truncation would lock the table, and cancel queries on a standby
    vacuum_truncate = off,
    toast.vacuum_truncate = off
);

-- The claim index: by lane (kind, queue, priority), within a lane by due time and id. No index has a column that a
-- claim changes, so a claim writes no index entry.
-- `+id`, not `id`: after a vacuum that finds almost no live rows, PostgreSQL rates any index with a column `id` as
-- highly as the primary key. It would then read this whole index for each of many ids.
CREATE INDEX queue_jobs_order ON queue_jobs (kind, queue, priority, run_at, (+id));
-- No two rows have equal entries, so deduplication before each page split (PostgreSQL 13 and later) is wasted work.
DO $$ BEGIN
    IF current_setting('server_version_num')::integer >= 130000 THEN
        ALTER INDEX queue_jobs_order SET (deduplicate_items = off);
    END IF;
END $$;
CREATE INDEX queue_jobs_cancelling ON queue_jobs (id) WHERE cancel_requested_at IS NOT NULL;

-- Claim records: the jobs that each claim took. They lead from a worker to its jobs. A heartbeat removes the records of
-- its worker without held jobs; rescue removes those of lost workers.
CREATE TABLE queue_claims (
    worker_id bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    job_ids bigint[] NOT NULL,
    PRIMARY KEY (worker_id, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000
);
-- A record of a thousand jobs lives for one heartbeat, so it stays in its page, uncompressed. (The most for 8 kB.)
DO $$ BEGIN
    IF current_setting('block_size')::integer >= 8192 THEN
        ALTER TABLE queue_claims SET (toast_tuple_target = 8160);
    END IF;
END $$;

-- Completed and cancelled jobs, until retention removes them.
CREATE TABLE queue_history (
    id bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('completed', 'cancelled')),
    args json NOT NULL,
    priority smallint NOT NULL,
    features smallint NOT NULL DEFAULT 0,
    max_retries integer,
    attempt integer NOT NULL,
    fence integer NOT NULL,
    worker_id bigint NOT NULL,
    enqueued_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    -- of the last attempt; NULL if the job was cancelled before its first
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT now(),
    result json,
    error text
) WITH (
    -- vacuum early: finished jobs reuse the space that retention frees, before the table grows
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX queue_history_finished ON queue_history (finished_at);

-- Dead letters: jobs that failed too often or could not run. They stay until somebody acts.
CREATE TABLE queue_dead (
    id bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    args json NOT NULL,
    priority smallint NOT NULL,
    features smallint NOT NULL DEFAULT 0,
    max_retries integer,
    attempt integer NOT NULL,
    fence integer NOT NULL,
    worker_id bigint NOT NULL,
    enqueued_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT now(),
    error text NOT NULL
);

-- Attempts that did not complete their job. (The completing attempt is in the history row itself.)
CREATE TABLE queue_attempts (
    job_id bigint NOT NULL,
    fence integer NOT NULL,
    attempt integer NOT NULL,
    worker_id bigint NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT now(),
    outcome text NOT NULL,
    error text,
    PRIMARY KEY (job_id, fence)
);

-- Worker processes.
CREATE TABLE queue_workers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text NOT NULL,
    pid bigint NOT NULL,
    concurrency integer NOT NULL,
    queues json NOT NULL,
    kinds json NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    -- the last heartbeat of a stopped worker; queue_heartbeats has that of a live one
    heartbeat_at timestamptz,
    -- when it stopped or was declared lost
    stopped_at timestamptz
);
CREATE INDEX queue_workers_alive ON queue_workers (id) WHERE stopped_at IS NULL;

-- The last heartbeat of each worker, and its lease. The time is part of the key, so a new entry follows the older ones.
-- Readers scan backwards: they meet the last entry first, and no dead entries that an old snapshot keeps.
CREATE TABLE queue_heartbeats (
    worker_id bigint NOT NULL,
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    -- end of the lease; after it, other workers rescue the jobs
    expires_at timestamptz NOT NULL,
    -- server run in which its session held the liveness lock at its last heartbeat; NULL: it held none
    server_run bigint,
    -- when its next heartbeat is due
    next_heartbeat_at timestamptz,
    PRIMARY KEY (worker_id, heartbeat_at)
);

-- Paused queues.
CREATE TABLE queue_paused (
    queue text COLLATE "C" PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- All jobs in one shape, for people. Its columns are stable.
CREATE VIEW queue_all AS
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state,
       priority, attempt, max_retries, enqueued_at, run_at, claimed_at AS started_at, NULL::timestamptz AS finished_at,
       nullif(worker_id, 0) AS worker_id, args, NULL::json AS result,
       CASE WHEN fence > 0 THEN
       (SELECT CASE WHEN a.outcome IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost') THEN a.error END
         FROM queue_attempts AS a WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
         ORDER BY a.fence DESC LIMIT 1) END AS error,
       coalesce(worker_id = 0 AND fence > 0
       AND (SELECT a.outcome FROM queue_attempts AS a
            WHERE a.job_id = j.id AND a.outcome NOT IN ('released', 'unstarted')
            ORDER BY a.fence DESC LIMIT 1)
           IN ('failed', 'panicked', 'timed_out', 'undecodable', 'lost'), false) AS retrying
FROM queue_jobs AS j
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       nullif(worker_id, 0), args, result, error, false
FROM queue_history
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       nullif(worker_id, 0), args, NULL, error, false
FROM queue_dead;

-- Job counts by kind, queue and state. oldest: due time of waiting, start of running, end of finished jobs.
CREATE VIEW queue_stats AS
SELECT kind, queue, state, count(*) AS jobs,
       min(CASE WHEN state = 'running' THEN started_at
                WHEN finished_at IS NULL THEN run_at ELSE finished_at END) AS oldest,
       count(CASE WHEN retrying THEN 1 END) AS retrying
FROM queue_all GROUP BY kind, queue, state;
