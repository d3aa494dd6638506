//! Background jobs on the SQL database that you already run: PostgreSQL, MySQL, MariaDB or SQLite.
//!
//! # Define
//! Annotate a function with [`#[job]`](job). This generates a struct whose fields are the arguments:
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
//! [`migrate`] creates or upgrades the tables. [`Job::enqueue`] accepts your pool, connection or transaction. Inside a
//! transaction, the job commits or rolls back together with your data:
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
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
//! A worker is a future. Run it in any binary that links the crate with the jobs. [`shutdown_signal`] ends it on Ctrl-C
//! and SIGTERM; running jobs get time to finish:
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
//! # #[queue::job] async fn send_email(to: String, subject: String) { let _ = (to, subject); }
//! use queue::Worker;
//!
//! Worker::builder(&pool).concurrency(32).build()?.run(queue::shutdown_signal()).await?;
//! # Ok(()) }
//! ```
//!
//! Workers need no coordinator. Start as many as you like, on any number of machines. [`WorkerBuilder::queue`] limits
//! a worker to some queues. A worker claims only the kinds that are linked into its binary. A handler takes a shared
//! value, such as a pool or a client, as a [`State`] parameter. [`WorkerBuilder::state`] provides it.
//!
//! # Test
//! The feature `testing` is for dev-dependencies. A test runs the jobs of its own transaction, with the worker's code:
//!
#![cfg_attr(feature = "testing", doc = "```standalone_crate")]
#![cfg_attr(not(feature = "testing"), doc = "```ignore")]
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
//! # #[queue::job] async fn send_email(to: String, subject: String) { let _ = (to, subject); }
//! use queue::testing::{TestQueue, assert_enqueued};
//! use queue::Job;
//!
//! let mut tx = pool.begin().await?;
//! let mut queue = TestQueue::within(&mut tx);
//! SendEmail::new("a@example.org", "hi").enqueue(&mut *queue).await?;
//! assert_enqueued!(queue, SendEmail { to, .. } if to == "a@example.org");
//! assert_eq!(queue.drain().await?.expect_ok().completed, 1);
//! # Ok(()) }
//! ```
//!
//! # Fail and retry
//! An error or a panic counts as a failure. The job waits for its [`Backoff`] and runs again, at most `max_retries`
//! times (20 by default). After that it becomes a dead letter. Return a [`JobError`] for finer control: retry after a
//! delay, give up at once, cancel, or snooze.
//!
//! # Delay and order
//! [`Job::after`] and [`Job::at`] set when a job is due. [`Job::priority`] sets the order. [`enqueue_all`] writes many
//! jobs at once.
//!
//! # Operate
//! [`Admin`](admin::Admin) lists, counts, retries, cancels, reschedules and deletes jobs. It shows what is being
//! retried and why, edits dead letters and sends them back, and pauses queues. You can also read the tables and views,
//! and enqueue jobs, with plain SQL. The library logs only through `tracing`: install a subscriber.
//!
//! # Guarantees
//! * Once its enqueue is committed, a job runs until it completes, is cancelled, or becomes a dead letter. Only an
//!   administrator's `delete` removes it before that.
//! * At most one attempt of a job is current at any time. A worker that was paused or cut off may still run an old
//!   attempt. The database rejects that attempt's result, but not what its handler writes elsewhere.
//! * Delivery is at least once: a crash between the end of a handler and the write of its result causes another
//!   attempt. Handlers must be idempotent, or write their effects and the completion in one transaction ([`Tx`]).
//! * All timestamps come from the database server. The clocks of your workers do not matter.

pub mod admin;
mod admin_edit;
mod admin_operations;
#[cfg(feature = "schedules")]
mod admin_schedules;
mod admin_secrets;
mod admin_within;
mod arguments;
mod carry_out;
mod context;
#[cfg(any(feature = "testing", feature = "schedules"))]
mod duration;
mod edit;
mod effects;
mod engine;
mod enqueue;
mod error;
mod failures;
mod fields;
mod finite;
mod gauges;
pub mod health;
mod job;
pub mod limits;
mod metadata;
pub mod middleware;
pub mod migration;
mod operations;
mod outcome;
mod propagation;
mod raw;
mod registry;
#[cfg(feature = "schedules")]
pub mod schedule;
mod search;
mod secrets;
mod signal;
mod state;
mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod throughput;
pub mod unique;
mod why;
mod worker;

#[doc(hidden)]
pub mod __private;

pub use context::{Cancellation, JobContext, State};
pub use enqueue::tx::{Tx, TxDatabase};
pub use enqueue::{InTransaction, Pool, Target};
pub use error::Error;
pub use job::{Enqueue, Job, StateType, enqueue_all, enqueue_all_unique};
pub use outcome::{Backoff, BoxError, IntoJobError, JobError};
#[doc(inline)]
pub use queue_macros::job;
pub use signal::shutdown_signal;
pub use state::{JobId, JobState};
pub use worker::{Worker, WorkerBuilder};

/// Creates the tables, or upgrades them from any older version. Does nothing if they are up to date. Several processes
/// may call it at once: one of them migrates, and the others wait for it.
///
/// On SQLite it also enables the write-ahead log (`PRAGMA journal_mode = WAL`), so that readers and the writer do not
/// block each other.
///
/// # Errors
/// [`Error::Schema`] if a newer release migrated the database and this one cannot work with it. [`Error::Database`]
/// for all other failures.
///
/// # Cancellation
/// Safe to drop. The migration continues in the background, and the pool stays healthy.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = sqlx::SqlitePool::connect("sqlite://jobs.sqlite?mode=rwc").await?;
/// queue::migrate(&pool).await?;
/// # Ok(()) }
/// ```
pub async fn migrate<P: Pool>(pool: &P) -> Result<(), Error> {
    pool.store().migrate().await
}

// Generated code refers to this crate as `::queue`, also in the crate's own tests.
#[allow(unused_extern_crates, reason = "used by the jobs in unit tests only")]
extern crate self as queue;

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
