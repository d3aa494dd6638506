//! The statements of each engine for the administration.

use crate::store::engine::notify::Signals;
use crate::store::engine::script::Script;

/// The statements of one engine for the administration. Engines that share a text share its file.
pub(crate) trait AdminDialect: Signals {
    /// Rows of kind, queue, state, count, oldest, number of retrying jobs.
    const STATS: &'static str;
    /// Binds as [`inspect`](crate::store::engine::inspect) gives them to all lists of jobs. Rows as it reads them.
    const JOBS_HOT: &'static str;
    /// As before.
    const JOBS_RUNNING: &'static str;
    /// As before.
    const JOBS_OVER: &'static str;
    /// As before.
    const JOBS_DEAD: &'static str;
    /// Binds: id. A row as before; then fence, args, result, name of the worker.
    const JOB: &'static str;
    /// Binds: id, fence. Rows of attempt, worker, name of the worker, start, end, outcome, error.
    const ATTEMPTS: &'static str;
    /// Rows of queue, pause, and the numbers of scheduled, ready, running and retrying jobs.
    const QUEUES: &'static str;
    /// Rows as [`inspect`](crate::store::engine::inspect) reads them.
    const WORKERS: &'static str;
    /// Binds: queue.
    const PAUSE: &'static str;
    /// Binds: queue.
    const RESUME: &'static str;

    /// See [`AdminStore::run_now`](crate::store::AdminStore::run_now). In all changes, the value of each statement is a
    /// list of [`ChangedJob`](crate::store::engine::changes)s. Each `find` returns ids.
    const RUN_NOW: Script;
    /// See [`AdminStore::reschedule`](crate::store::AdminStore::reschedule).
    const RESCHEDULE: Script;
    /// See [`AdminStore::cancel`](crate::store::AdminStore::cancel).
    const CANCEL: Script;
    /// See [`AdminStore::send_back`](crate::store::AdminStore::send_back).
    const SEND_BACK: Script;
    /// See [`Upkeep::delete`](crate::store::Upkeep::delete). It finds dead letters, then history, then waiting jobs.
    const DELETE: Script;
    /// See [`AdminStore::edit`](crate::store::AdminStore::edit).
    const EDIT: Script;
}

/// Implements [`AdminDialect`] with the files in an engine's folder `sql/admin`.
macro_rules! admin_dialect {
    ($db:ty, $engine:literal) => {
        const _: () = {
            use $crate::store::engine::admin_dialect::AdminDialect;
            use $crate::store::engine::script::{Script, script, sql};

            impl AdminDialect for $db {
                const STATS: &'static str = sql!($engine, "admin/stats");
                const JOBS_HOT: &'static str = sql!($engine, "admin/jobs_hot");
                const JOBS_RUNNING: &'static str = sql!($engine, "admin/jobs_running");
                const JOBS_OVER: &'static str = sql!($engine, "admin/jobs_over");
                const JOBS_DEAD: &'static str = sql!($engine, "admin/jobs_dead");
                const JOB: &'static str = sql!($engine, "admin/job");
                const ATTEMPTS: &'static str = sql!($engine, "admin/attempts");
                const QUEUES: &'static str = sql!($engine, "admin/queues");
                const WORKERS: &'static str = sql!($engine, "admin/workers");
                const PAUSE: &'static str = sql!($engine, "admin/pause");
                const RESUME: &'static str = sql!("engine", "admin/resume");
                const RUN_NOW: Script = script!($engine, "admin/run_now");
                const RESCHEDULE: Script = script!($engine, "admin/reschedule");
                const CANCEL: Script = script!($engine, "admin/cancel");
                const SEND_BACK: Script = script!($engine, "admin/send_back");
                const DELETE: Script = script!($engine, "admin/delete");
                const EDIT: Script = script!($engine, "admin/edit");
            }
        };
    };
}
pub(crate) use admin_dialect;
