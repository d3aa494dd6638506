//! Background jobs on the SQL database that you already run: PostgreSQL, MySQL, MariaDB or SQLite.
//!
//! # Define
//! Annotate a function. [`#[job]`](job) writes a struct beside it, with the arguments as fields:
//!
//! ```
//! use queue::{JobError, job};
//!
//! /// Sends one mail.
//! #[job(queue = "mail", max_retries = 3, timeout = "30s")]
//! async fn send_email(to: String, subject: String) -> Result<(), JobError> {
//!     println!("to {to}: {subject}");
//!     Ok(())
//! }
//! # let _ = SendEmail { to: "a@example.org".into(), subject: "hi".into() };
//! ```
//!
//! # Enqueue
//! [`migrate`] brings the tables up to date. [`Job::enqueue`] takes a pool, or a connection or transaction of yours, so
//! that the job is written, or not, together with your data:
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = queue::__doctest::pool().await;
//! # #[queue::job] async fn send_email(to: String, subject: String) { let _ = (to, subject); }
//! use queue::Job;
//!
//! queue::migrate(&pool).await?;
//! let mut tx = pool.begin().await?;
//! // … your own INSERT …
//! SendEmail::new("a@example.org", "hi").enqueue(&mut tx).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```
//!
//! # Work
//! A worker is a future in any binary that links the crate with the jobs:
//!
//! ```standalone_crate
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = queue::__doctest::pool().await;
//! # #[queue::job] async fn send_email(to: String, subject: String) { let _ = (to, subject); }
//! # let shutdown = async {};
//! use queue::Worker;
//!
//! Worker::builder(&pool).concurrency(32).build()?.run(shutdown).await?;
//! # Ok(()) }
//! ```
//!
//! Workers need no coordinator: start as many as you like, on as many machines. [`WorkerBuilder::queue`] dedicates one to
//! some queues; a worker runs only the kinds that are linked into it and leaves others alone.
//!
//! # Fail and retry
//! An error or a panic counts as a failure: the job waits for its [`Backoff`] and runs again, `max_retries` times, then it
//! is a dead letter. [`JobError`] says more: retry after a while, give up, cancel, snooze.
//!
//! # Schedule
//! [`Job::after`] and [`Job::at`] set the time, [`Job::priority`] the order.
//!
//! # Operate
//! [`Admin`] counts, lists and shows jobs with every attempt, retries, cancels, reschedules and deletes them, edits dead
//! letters and sends them back, pauses queues. The tables and views can be read, and jobs enqueued, with plain SQL.
//!
//! # What is promised
//! * A job whose enqueue was committed is run until it completes, is cancelled or is a dead letter.
//! * At any time at most one attempt of a job is current. A worker that was paused or cut off finds its writes refused.
//! * Effects outside the database happen at least once: a crash between the end of a handler and its acknowledgement means
//!   another attempt.
//! * The database's clock decides every time.

mod admin;
mod backoff;
mod context;
mod engine;
mod enqueue;
mod error;
mod finite;
mod id;
mod job;
mod limits;
mod migrate;
mod outcome;
mod registry;
mod state;
mod store;
mod telemetry;
mod worker;

#[doc(hidden)]
pub mod __private;

pub use admin::Admin;
pub use backoff::Backoff;
pub use context::{Cancellation, JobContext, State};
pub use engine::Engine;
pub use enqueue::target::{Pool, Target};
pub use error::Error;
pub use id::JobId;
pub use job::{Enqueue, Job, StateType, enqueue_all};
pub use limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH};
pub use migrate::{migrate, migration_sql};
pub use outcome::{BoxError, IntoJobError, JobError, JobReturn};
#[doc(inline)]
pub use queue_macros::job;
pub use state::{JobState, UnknownState};
pub use store::view::{Attempt, Filter, Job as JobRow, JobDetail, Page, QueueInfo, Stat, WorkerInfo};
pub use worker::{Worker, WorkerBuilder};

/// What the examples in this documentation share.
#[doc(hidden)]
#[cfg(feature = "sqlite")]
pub mod __doctest {
    /// A migrated database in memory.
    pub async fn pool() -> sqlx::SqlitePool {
        let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let pool = options.connect("sqlite::memory:").await.expect("memory");
        crate::migrate(&pool).await.expect("an empty database takes the schema");
        pool
    }
}

// Generated code names the crate by its path, here too.
#[allow(unused_extern_crates, reason = "used by the jobs in unit tests only")]
extern crate self as queue;

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
