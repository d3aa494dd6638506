//! The statements of an engine: one file for each topic in its folder `sql/`, with a name above each statement. What
//! all engines have in common is in `engine/sql/shared.sql`.
//!
//! Lists are JSON, but those of ids are [`Bind::Ints`]. The comments in the files say more.
//!
//! [`Bind::Ints`]: crate::store::engine::driver::Bind::Ints

use crate::store::engine::statement::{Script, find, named, topic};

const SHARED: &str = topic!("engine", "shared");

/// The statements of a topic, each with the name of its field: `sql` or a `script`, or `maybe_` one that some engines
/// lack, or one that is `shared`.
macro_rules! statements {
    ($(#[$about:meta])* $topic:ident { $($(#[$doc:meta])* $name:ident: $kind:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $topic { $($(#[$doc])* pub(crate) $name: statements!(@type $kind),)* }

        impl $topic {
            /// From an engine's file. A missing statement is an error of the compiler.
            #[allow(dead_code, reason = "an engine may lack a topic")]
            pub(crate) const fn of(text: &'static str) -> Self {
                Self { $($name: statements!(@value $kind, text, stringify!($name)),)* }
            }
        }
    };
    (@type sql) => { &'static str };
    (@type shared) => { &'static str };
    (@type script) => { Script };
    (@type maybe_sql) => { Option<&'static str> };
    (@type maybe_script) => { Option<Script> };
    (@value sql, $text:ident, $name:expr) => { named($text, $name) };
    (@value shared, $text:ident, $name:expr) => { named(SHARED, $name) };
    (@value script, $text:ident, $name:expr) => { Script::new(named($text, $name)) };
    (@value maybe_sql, $text:ident, $name:expr) => { find($text, $name) };
    (@value maybe_script, $text:ident, $name:expr) => {
        match find($text, $name) {
            Some(text) => Some(Script::new(text)),
            None => None,
        }
    };
}

statements! {
    /// A held job, from the start of its handler to the end of the attempt.
    AttemptStatements {
        /// Binds: job, worker, fence. A row: the arguments.
        args: shared,
        /// Binds: worker, a list of [`Start`](crate::store::values::Start).
        started: script,
        /// Binds: job. One row: how many microseconds ago the first of its last attempts began that could not decode
        /// its arguments. Attempts that did not count do not interrupt them.
        undecodable: sql,
        /// Binds: worker, the result of [`finish_list`](crate::store::engine::dialect::Dialect::finish_list).
        finish: script,
        /// Binds: worker, a list of ends.
        requeue: script,
        /// Binds: worker, a list of ends.
        bury: script,
        /// Binds: job, worker, fence, when it was enqueued. Locks that row until the end of the transaction, and
        /// returns its id.
        guard: sql,
        /// Completes one job in a transaction of its handler's. Binds: as before; for how long it ran, result (JSON;
        /// NULL: none). Each statement touches one row. If the first touches none, no row of that database is this
        /// attempt's.
        complete: script,
        /// Binds: worker, a list of `{id, fence}`. The ids of those that the worker still holds. Takes no locks.
        still_held: sql,
    }
}

statements! {
    /// Workers: joining, heartbeats, losses, and the rescue of their jobs.
    LeaseStatements {
        /// Binds: host, pid, concurrency, queues (JSON), kinds (JSON), lease (unless the next one takes it). Inserts
        /// the worker's row.
        join: sql,
        /// Writes the first heartbeat, if joining does not. Binds: worker, lease.
        join_heartbeat: maybe_sql,
        /// Binds: worker, lease, kinds to discover (JSON), running jobs (JSON), settled claims (JSON), whether to check
        /// all claim records (0 or 1), the session that answered the last heartbeat on this connection (0: none), the
        /// server's run in which its session holds the lock that shows that the worker lives (NULL: it does not hold
        /// it), the time until the next heartbeat.
        ///
        /// The last statement returns at most one row: whether the worker is alive, whether a job of those kinds waits,
        /// the held jobs with a cancel request (JSON: `[[id, fence], …]`; NULL: none), the server's id of this session,
        /// and other workers (JSON: `[[id, lives, holds jobs, last heartbeat, run, late, left, lease], …]`; NULL:
        /// none). Of those, `lives` and `holds jobs` are 0 or 1, read from the locks; `run` is read from the row. The
        /// next heartbeat has been overdue for `late` microseconds. The lease was given for `lease` microseconds and
        /// runs out in `left` (negative: it has).
        heartbeat: script,
        /// Binds: worker. Rows `(id, fence)`.
        holding: sql,
        /// Binds: worker, for how long it was silent.
        leave: sql,
        /// Declares a worker lost if its last heartbeat is the one given. Binds: worker, heartbeat, and 1 if its lease
        /// has run out or 0 if its lock is free. The statement checks both itself.
        declare_lost: script,
        /// Binds: limit. Jobs whose worker is lost, stopped or unknown, with that worker. Takes no locks.
        lost: sql,
        /// Binds: a list of `{id, worker_id}`. Locks those that are still lost, and returns the values for `rescue`.
        /// The file explains the fates.
        lock_lost: sql,
        /// Binds: a list of `{id, fate, doubts, losses, error}`, of locked jobs.
        rescue: script,
        /// Deletes the claim records of lost workers that hold none of their jobs any more. No binds. None: there are
        /// no claim records.
        forget_claims: maybe_script,
        purge_heartbeats: shared,
        /// Binds: keep.
        purge_workers: sql,
    }
}

statements! {
    /// Locks that the server releases with a connection.
    SessionStatements {
        /// The run of the server: since when it has kept sessions. Another answer means that all earlier sessions are
        /// lost. No row: not known yet.
        run: sql,
        /// Binds: worker. Takes the lock that shows that the worker lives, without waiting. One row: 1 if it was taken.
        hold: sql,
        /// Binds: worker. Takes the lock that shows that it holds jobs.
        busy: sql,
        /// Binds: worker. Releases that lock.
        idle: sql,
        /// Takes the [claim lock](crate::store::Jobs::take_claim_lock); waits up to a second. One row: 1 if it was
        /// taken. Anything else, or an error: it was not.
        claim_lock: sql,
        /// Releases it.
        claim_unlock: sql,
    }
}

statements! {
    /// What removes finished jobs.
    RetentionStatements {
        /// Binds: keep, limit. Ids of history rows to remove. Another worker may be about to remove them, too.
        over: sql,
        /// Binds: a list of these ids. The first statement that runs touches one row for each job that it removes.
        purge: script,
    }
}

statements! {
    /// The state of the schema.
    SchemaStatements {
        /// One row: the schema's version, the oldest version that a compatible program may know, and the name of a
        /// missing trigger (NULL: none).
        version: sql,
        /// Rows whose first column is a name that something in the database has, and that begins like ours. Where
        /// schema changes are not transactional: tables and views alone, with their type and columns.
        there: sql,
        /// Returns a row if ids repeat: the newest job has a lower id than an older job that is over.
        numbers: sql,
        /// Binds: version, the oldest compatible one.
        migrated: shared,
    }
}

statements! {
    /// The administration.
    AdminStatements {
        /// Rows of kind, queue, state, count, oldest, number of retrying jobs.
        stats: sql,
        /// Rows as [`inspect`](crate::store::engine::inspect) reads them.
        workers: sql,
        kinds: sql,
        /// Rows of worker, queue, number of jobs.
        held: sql,
        /// Binds: id, the most rows of each table and of all. One row: the last id (NULL: there is none), the number of
        /// rows, when that job was enqueued.
        slice_back: sql,
        /// As before, without the time.
        slice_on: sql,
        /// Binds as [`inspect`](crate::store::engine::inspect) gives them to all searches. Rows as it reads them.
        jobs_hot: sql,
        /// As before.
        jobs_running: sql,
        /// As before.
        jobs_over: sql,
        /// As before.
        jobs_dead: sql,
        /// Binds: id. A row with the same first 14 columns; then fence, args, result, name of the worker.
        job: sql,
        /// Binds: kind, queue, priority, due time, id, the most jobs to count. One row: now, since when the queue is paused,
        /// the number of jobs that come first.
        place: sql,
        /// Binds: id. A row if the row of this job can be locked.
        lock_free: sql,
        /// Binds: id, fence. Rows of attempt, worker, name of the worker, start, end, outcome, error.
        attempts: sql,
        /// Binds: the most rows of each table, the most characters of an error. Rows of id, kind, queue, outcome,
        /// attempt, worker, name of the worker, start (NULL: none), end, whether it is a dead letter, error.
        ended: sql,
        /// Binds: the most dead letters, the most characters of an error. Rows: see the files.
        failures_dead: sql,
        /// As before.
        failures_retrying: sql,
        /// Binds: queue.
        pause: sql,
        /// Binds: queue.
        resume: shared,
        /// See [`AdminStore::run_now`](crate::store::AdminStore::run_now). In all changes, the value of each statement
        /// is a list of [`ChangedJob`](crate::store::engine::changes)s. Each `find` returns ids.
        run_now: script,
        /// See [`AdminStore::reschedule`](crate::store::AdminStore::reschedule).
        reschedule: script,
        /// See [`AdminStore::cancel`](crate::store::AdminStore::cancel).
        cancel: script,
        /// See [`AdminStore::send_back`](crate::store::AdminStore::send_back). Its `find` also returns the features.
        send_back: script,
        /// See [`Upkeep::delete`](crate::store::Upkeep::delete). It finds dead letters, then history, then waiting
        /// jobs.
        delete: script,
        /// See [`AdminStore::edit`](crate::store::AdminStore::edit).
        edit: script,
    }
}

statements! {
    /// What [`gauges`](crate::store::engine::gauges) reads. The files explain the values and rows.
    GaugeStatements {
        lanes: sql,
        waiting: sql,
        waiting_in: sql,
        running: sql,
        dead_lanes: sql,
        dead: sql,
        alive: sql,
        paused: sql,
    }
}

statements! {
    /// What [`tallies`](crate::store::engine::tallies) writes and reads.
    TallyStatements {
        /// Binds: a list of [`TallyRow`](crate::store::values::TallyRow). Adds to the rows of this minute and hour.
        add: sql,
        /// Binds: seconds of a row, keep, the most rows. Removes older ones.
        purge: sql,
        /// Binds: seconds of a row, how far back, the most rows. Rows of now, time, queue, kind, outcome, attempts,
        /// total, longest, the newest first. One row, with the time now alone, if there are none.
        read: sql,
        /// Binds: a list of [`FailureRow`](crate::store::values::FailureRow). Adds to the rows of this hour.
        add_failures: sql,
        /// Binds: keep, the most rows. Removes older ones.
        purge_failures: sql,
        /// Binds: a list of groups. Rows of group, now, first, last, attempts, by group and time.
        failures: sql,
    }
}

statements! {
    /// The record of the administration. The files explain the values.
    OperationStatements {
        bounds: sql,
        begin: sql,
        advance: sql,
        end: sql,
        refuse: sql,
        forgive: sql,
        unattended: sql,
        purge: script,
        list: sql,
        list_of_job: sql,
        refusals: shared,
    }
}

#[cfg(feature = "schedules")]
statements! {
    /// Schedules. The files explain the values.
    ScheduleStatements {
        look: sql,
        lock: sql,
        rows: sql,
        taken: sql,
        ticks: sql,
        moved: sql,
        silent: sql,
        register: script,
        app: sql,
        of_app: sql,
        named: sql,
        define: sql,
        decided: script,
        retire: sql,
        list: shared,
        pause: sql,
        resume: sql,
        history: sql,
        tick_of: sql,
        purge: script,
    }
}

statements! {
    /// The keys of unique jobs.
    UniqueStatements {
        /// Locks those of these jobs that wait. It may leave out one that others lock. Rows: id, worker, fence. None:
        /// this engine has no locks of rows.
        hold: maybe_sql,
        /// The same for jobs that may run, where a transaction sees an old snapshot for ever. Their ends wait for it.
        hold_begun: maybe_sql,
        /// Gives a waiting job other values.
        replace: sql,
        /// Rows: job, kind, key, until, fence of the jobs that
        /// [`send_back`](AdminStatements::send_back) has found. It moves them at once, or locks them.
        noted: sql,
        /// A row: the first and the last job that `over` would look at. NULL: there are none.
        span: shared,
        /// Binds: the last job looked at, how many to look at. Rows: job, 1 if it is nowhere any more and its time is
        /// over.
        over: sql,
        /// Removes the keys of jobs that are nowhere any more, and what was noted of them.
        sweep: script,
        /// Binds: job. A row: its key.
        key_of: shared,
        /// Binds: kind, key. A row: the last job that took it.
        last_of: shared,
        /// Binds: kind. A row: its jobs are unique.
        has_keys: shared,
        /// Binds: kind, key. Ends its time.
        release: shared,
    }
}

#[cfg(feature = "testing")]
statements! {
    /// For tests of users.
    TestStatements {
        /// Moves the times of all jobs. See [`TestStore::shift`](crate::store::TestStore::shift).
        shift: script,
        /// See [`ScheduleStore::adopt`](crate::store::ScheduleStore::adopt).
        adopt: sql,
    }
}
