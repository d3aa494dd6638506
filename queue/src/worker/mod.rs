//! The worker: loops that share one [`Shared`], each in its own file.
//!
//! ```text
//!  claim ──jobs──► slots ──► company ──► attempt ──how it ended──► record
//!    ▲  wake: enqueues of this process, the engine's signal, the poll, a slot that became free
//!  starts: tells the database what has begun
//!  heartbeat: keeps the lease, brings cancellations, starts rescue and retention
//!  shutdown: stop claiming → give unstarted jobs back → wait → cancel → give back → leave
//! ```

mod claim;
mod config;
mod duties;
#[cfg(test)]
mod fake;
mod lease;
mod lifecycle;
mod record;
mod run;
mod shared;

pub use config::WorkerBuilder;

use crate::enqueue::target::Pool;
use crate::error::Error;
use config::Config;

/// Runs jobs. Any number of workers may serve one database, in one process or many; they need no coordinator.
///
/// A worker keeps a few connections beside its pool, whatever its concurrency: 5 on PostgreSQL (claims, endings,
/// heartbeat, upkeep, notifications), 4 on MySQL and MariaDB, 3 on SQLite. The pool itself is for the jobs that use it.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// use queue::Worker;
///
/// # let ctrl_c = std::future::pending();
/// Worker::builder(pool).concurrency(32).build()?.run(ctrl_c).await
/// # }
/// ```
#[must_use = "a worker does nothing until `.run(…)` is awaited"]
pub struct Worker {
    config: Config,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("engine", &self.config.store.engine())
            .field("concurrency", &self.config.concurrency)
            .field("queues", &self.config.queues)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts to configure a worker on a `PgPool`, `MySqlPool` or `SqlitePool` (or a reference to one). No I/O.
    pub fn builder(pool: impl Pool) -> WorkerBuilder {
        WorkerBuilder::new(pool)
    }

    pub(crate) fn new(config: Config) -> Self {
        Self { config }
    }

    /// Works until `shutdown` is ready (Ctrl-C, SIGTERM, whatever the program decides), then stops claiming, gives back at
    /// once what was not started, lets running jobs go on for [`shutdown_grace`](WorkerBuilder::shutdown_grace), cancels
    /// the rest and gives them back without counting an attempt.
    ///
    /// An outage of the database is survived: the worker cancels what it runs before its lease can have run out, and works
    /// on when the database is back.
    ///
    /// # Errors
    /// Before it claims anything: [`Error::Schema`] when the tables are missing, older than this binary, or newer and not
    /// compatible; [`Error::Database`] when the database cannot be reached.
    ///
    /// # Cancellation
    /// Dropping the future drops the running jobs with it; they are rescued by other workers as after a crash.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.run_until(shutdown, std::future::pending()).await
    }

    /// As [`run`](Self::run), and ends at once when `immediately` is ready too (a second Ctrl-C, say): running jobs are
    /// dropped and given back without counting an attempt.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()>,
        immediately: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        lifecycle::supervise(self.config, shutdown, immediately).await
    }
}
