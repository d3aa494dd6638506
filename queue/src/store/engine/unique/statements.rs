//! The statements of each engine for unique jobs.

use crate::store::engine::script::Script;

/// The statements of one engine for unique jobs. Lists are JSON; those of ids are [`Bind::Ints`].
///
/// [`Bind::Ints`]: crate::store::engine::dialect::Bind::Ints
pub(crate) struct UniqueStatements {
    /// Takes the keys that are free and inserts their jobs, in one statement. It locks the other keys. Rows: the place,
    /// the new job. None: this engine needs several statements.
    pub(crate) take: Option<&'static str>,
    /// Inserts the missing keys without a holder (`job_id` 0), and locks all.
    pub(crate) lock: &'static str,
    /// Rows: the place; the holder; the fence under which it holds the key until its start, else NULL; 1 if it waits, 2
    /// if it runs, NULL if it is over or started; whether this snapshot has seen it take the key; whether its time is
    /// not over.
    pub(crate) holders: &'static str,
    /// Locks jobs. Rows: id, worker, fence. None: there are no locks of rows.
    pub(crate) hold: Option<&'static str>,
    /// Gives locked keys to jobs.
    pub(crate) give: &'static str,
    /// Notes the keys of new jobs.
    pub(crate) note: &'static str,
    /// Gives a waiting job other values.
    pub(crate) replace: &'static str,
    /// Rows: job, kind, key, until, fence of waiting jobs.
    pub(crate) noted: &'static str,
    /// Binds: the last job looked at, how many to look at. Rows: job, 1 if it is nowhere any more and its time is over.
    pub(crate) over: &'static str,
    /// Removes the keys of jobs.
    pub(crate) sweep: Script,
    /// Binds: job. A row: its key.
    pub(crate) key_of: &'static str,
    /// Binds: kind, key. A row: the last job that took it.
    pub(crate) last_of: &'static str,
}

/// The files in an engine's folder `sql/unique`.
macro_rules! unique_statements {
    ($engine:literal, take: $take:expr, hold: $hold:expr) => {{
        use $crate::store::engine::script::{script, sql};
        &$crate::store::engine::unique::statements::UniqueStatements {
            take: $take,
            lock: sql!($engine, "unique/lock"),
            holders: sql!($engine, "unique/holders"),
            hold: $hold,
            give: sql!($engine, "unique/give"),
            note: sql!($engine, "unique/note"),
            replace: sql!($engine, "unique/replace"),
            noted: sql!($engine, "unique/noted"),
            over: sql!($engine, "unique/over"),
            sweep: script!($engine, "unique/sweep"),
            key_of: sql!("engine", "unique/key_of"),
            last_of: sql!("engine", "unique/last_of"),
        }
    }};
}
pub(crate) use unique_statements;
