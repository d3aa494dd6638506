-- The jobs that wait or run. Finished ones leave for queue_history, given-up ones for queue_dead, so that this table stays
-- as small as the work at hand. A plain INSERT of (kind, args) is a complete enqueue.
CREATE TABLE queue_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- COLLATE "C": the claim index sorts by it, and no upgrade of the system's collations can change that order
    kind text COLLATE "C" NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 128 AND kind NOT LIKE '% '),
    queue text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (octet_length(queue) BETWEEN 1 AND 128 AND queue NOT LIKE '% '),
    args json NOT NULL DEFAULT '{}',
    priority smallint NOT NULL DEFAULT 0,
    run_at timestamptz NOT NULL DEFAULT now() CHECK (run_at >= '0001-01-01 00:00Z' AND run_at < 'infinity'),
    max_retries integer CHECK (max_retries >= 0),
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 1000000000),
    -- the fence: one more at each claim, named by every write of the attempt
    fence integer NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1000000000),
    -- the fence of the attempt that is known to have begun: one that never began does not count when its worker is lost
    started_fence integer NOT NULL DEFAULT 0,
    -- how many workers were lost with it, since an attempt of it last ended by itself
    losses smallint NOT NULL DEFAULT 0,
    -- how many other jobs the worker may run beside the attempt in `started_fence`; NULL: any number
    max_neighbours integer,
    -- 0: nobody holds it
    worker_id bigint NOT NULL DEFAULT 0,
    claimed_at timestamptz,
    cancel_requested_at timestamptz
) WITH (
    -- a claimed row stays on its page, beside its old version (HOT): half of each page is kept for that
    fillfactor = 50,
    -- rows live for milliseconds: vacuum by count, not by share of the table, and without pauses, which at 30,000 jobs a second
    -- let the table grow faster than it is vacuumed
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    -- arguments of more than 2 kB live beside the table, and go as fast
    toast.autovacuum_vacuum_scale_factor = 0.01,
    toast.autovacuum_vacuum_threshold = 2000,
    toast.autovacuum_vacuum_cost_delay = 0,
    -- to give empty pages back a vacuum would lock the table, and cancel the readers of a standby
    vacuum_truncate = off,
    toast.vacuum_truncate = off
);

-- The claim index: rows by lane (kind, queue, priority), within a lane by due time. It knows nothing of who holds a row, as
-- no index here does: a claim changes no indexed column, so it writes no index entry.
-- `+id`, not `id`: after a vacuum that finds next to no living row, PostgreSQL takes any index that has a column `id` for as
-- good as the primary key, and looks for each of many ids by reading all of it.
CREATE INDEX queue_jobs_order ON queue_jobs (kind, queue, priority, run_at, (+id));
-- No two rows have equal entries: to look for some before each page is split, as PostgreSQL does since 13, finds next to nothing.
DO $$ BEGIN
    IF current_setting('server_version_num')::integer >= 130000 THEN
        ALTER INDEX queue_jobs_order SET (deduplicate_items = off);
    END IF;
END $$;
CREATE INDEX queue_jobs_cancelling ON queue_jobs (id) WHERE cancel_requested_at IS NOT NULL;

-- What each claim took: the way from a worker to its jobs. A heartbeat removes the claims of which the worker holds nothing
-- any more, rescue those of workers that are gone.
CREATE TABLE queue_claims (
    worker_id bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    job_ids bigint[] NOT NULL,
    PRIMARY KEY (worker_id, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000
);
-- A claim of a thousand jobs is a row of its page, not compressed: it is gone after a heartbeat. (As much as 8 kB allow.)
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
    max_retries integer,
    attempt integer NOT NULL,
    fence integer NOT NULL,
    worker_id bigint NOT NULL,
    enqueued_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    -- of the last attempt; NULL when it was cancelled before any
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT now(),
    result json,
    error text
) WITH (
    -- what retention removes makes room for what is finished, before the table has grown by as much again
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX queue_history_finished ON queue_history (finished_at);

-- Dead letters: jobs set aside after their last attempt, until somebody acts.
CREATE TABLE queue_dead (
    id bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    args json NOT NULL,
    priority smallint NOT NULL,
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

-- Every attempt that did not complete its job (the completing one is in the history row itself).
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
    -- its last heartbeat, once it has ended; before that see queue_heartbeats
    heartbeat_at timestamptz,
    -- when it ended or was declared dead
    stopped_at timestamptz
);
CREATE INDEX queue_workers_alive ON queue_workers (id) WHERE stopped_at IS NULL;

-- The last heartbeat of each worker, and its lease. The time is part of the key, so each heartbeat stands behind the
-- ones before it. A reader goes backwards. It meets the last one first, and none of the dead ones that an old snapshot
-- keeps.
CREATE TABLE queue_heartbeats (
    worker_id bigint NOT NULL,
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    -- the lease: past this, others take its jobs back
    expires_at timestamptz NOT NULL,
    -- with its last heartbeat its session held the lock that says that it lives: in this run of the server. NULL: it held none
    server_run bigint,
    -- by then its next heartbeat comes
    next_heartbeat_at timestamptz,
    PRIMARY KEY (worker_id, heartbeat_at)
);

-- Queues that are paused.
CREATE TABLE queue_paused (
    queue text COLLATE "C" PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- All jobs in one shape, for people: columns are stable.
CREATE VIEW queue_all AS
SELECT id, kind, queue,
       CASE WHEN worker_id <> 0 THEN 'running' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END AS state,
       priority, attempt, max_retries, enqueued_at, run_at, claimed_at AS started_at, NULL::timestamptz AS finished_at,
       nullif(worker_id, 0) AS worker_id, args, NULL::json AS result, NULL::text AS error
FROM queue_jobs
UNION ALL
SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       nullif(worker_id, 0), args, result, error
FROM queue_history
UNION ALL
SELECT id, kind, queue, 'dead', priority, attempt, max_retries, enqueued_at, run_at, started_at, finished_at,
       nullif(worker_id, 0), args, NULL, error
FROM queue_dead;

-- Jobs counted by kind, queue and state; oldest: due time while waiting, start while running, end when over.
CREATE VIEW queue_stats AS
SELECT kind, queue, state, count(*) AS jobs,
       min(CASE WHEN state = 'running' THEN started_at WHEN finished_at IS NULL THEN run_at ELSE finished_at END) AS oldest
FROM queue_all GROUP BY kind, queue, state;
