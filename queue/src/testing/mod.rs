//! Tests of code that enqueues jobs, and of the jobs themselves. Needs the cargo feature `testing`.
//!
//! A [`TestQueue`] shows what was enqueued, and runs jobs inside the test, one after another. It uses the attempts and
//! the statements of a [`Worker`](crate::Worker), so a test sees what a worker would do. No task runs in the
//! background.
//!
//! | | [`TestQueue::within`] | [`TestQueue::new`] |
//! |---|---|---|
//! | works | in the test's open transaction | on the test's own database or schema |
//! | leaves behind | nothing: the test rolls back | rows |
//! | parallel tests | may share one database | each needs its own, as `#[sqlx::test]` gives it |
//! | handlers see what the test has written | no, unless it is committed | yes |
//!
//! ```toml
//! [dev-dependencies]
//! queue = { version = "…", features = ["testing"] }
//! ```

mod outcome;
mod runner;
#[cfg(feature = "schedules")]
mod ticks;

use std::any::TypeId;
use std::fmt::{Debug, Write};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Database, Pool, Transaction};

use crate::duration;
use crate::enqueue::tx::WorkerPool;
use crate::error::Error;
use crate::job::Job;
use crate::registry::JobDefinition;
use crate::secrets::{Values, mask};
use crate::store::engine::testing::{Requests, serve};
use crate::store::view::{JobDetail, JobRow};
use crate::testing::runner::{Mishap, Runner};

#[doc(inline)]
pub use crate::{__assert_enqueued as assert_enqueued, __refute_enqueued as refute_enqueued};
pub use outcome::{Drained, Outcome, Succeeded};

/// [`TestQueue::advance`] goes this much further: a delay is rounded up when it is stored.
const SLACK: Duration = Duration::from_millis(10);

/// A database that a [`TestQueue`] works on: `sqlx::Postgres`, `sqlx::MySql` or `sqlx::Sqlite`. Sealed.
pub trait TestDatabase: sealed::SealedDatabase {}

/// What a [`TestQueue`] works on: [`Within`] or [`OnPool`]. Sealed.
pub trait Lent: sealed::SealedLent {}

/// An open transaction, lent to a [`TestQueue`].
pub struct Within<'t, DB: TestDatabase> {
    conn: &'t mut DB::Connection,
    requests: Requests<DB>,
}

/// A pool, lent to a [`TestQueue`].
pub struct OnPool(());

#[allow(private_interfaces, reason = "sealed: nobody outside can name these methods")]
mod sealed {
    use std::sync::Arc;

    use super::{Database, OnPool, Pool, Requests, TestDatabase, Within, serve};
    use crate::store::TestStore;
    use crate::store::engine::connection::SqlStore;
    use crate::store::engine::connection::write_queue::Turns;
    use crate::store::engine::dialect::Dialect;
    use crate::store::engine::testing::test_store::lent;

    pub trait SealedDatabase: Database {
        #[doc(hidden)]
        fn lent() -> (Arc<dyn TestStore>, Requests<Self>);
        #[doc(hidden)]
        fn of(pool: &Pool<Self>) -> Arc<dyn TestStore>;
        #[doc(hidden)]
        fn turns(pool: &Pool<Self>) -> Turns;
    }

    impl<DB: Dialect> SealedDatabase for DB {
        fn lent() -> (Arc<dyn TestStore>, Requests<Self>) {
            lent::<DB>()
        }

        fn of(pool: &Pool<Self>) -> Arc<dyn TestStore> {
            Arc::new(SqlStore::<DB>::new(pool.clone()))
        }

        fn turns(pool: &Pool<Self>) -> Turns {
            Turns::of(pool)
        }
    }

    impl<DB: SealedDatabase> TestDatabase for DB {}

    pub trait SealedLent: Send {
        /// Waits for `work`, and lends it the connection.
        #[doc(hidden)]
        fn serve<T>(&mut self, work: impl Future<Output = T>) -> impl Future<Output = T>;
    }

    impl<DB: TestDatabase> SealedLent for Within<'_, DB> {
        fn serve<T>(&mut self, work: impl Future<Output = T>) -> impl Future<Output = T> {
            serve(self.conn, &mut self.requests, work)
        }
    }

    impl SealedLent for OnPool {
        fn serve<T>(&mut self, work: impl Future<Output = T>) -> impl Future<Output = T> {
            work
        }
    }

    impl<C: SealedLent> super::Lent for C {}
}

/// The queue of a test: what waits in it, and what its jobs do.
///
/// Jobs run inside the method that is awaited, one at a time, by priority, due time and id. A handler that panics or
/// fails does not fail the test; see [`Drained::expect_ok`].
///
/// ```standalone_crate
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::testing::{TestQueue, assert_enqueued, refute_enqueued};
/// use queue::{Job, job};
///
/// #[job]
/// async fn greet(name: String) {}
///
/// // the code under test, which takes `&mut SqliteConnection`
/// async fn sign_up(db: &mut sqlx::SqliteConnection, name: &str) -> Result<(), queue::Error> {
///     Greet::new(name).after(std::time::Duration::from_secs(60)).enqueue(db).await?;
///     Ok(())
/// }
///
/// let mut tx = pool.begin().await?;
/// let mut queue = TestQueue::within(&mut tx);
/// sign_up(&mut queue, "Ada").await?;
/// assert_enqueued!(queue, Greet { name } if name == "Ada");
///
/// assert_eq!(queue.drain().await?.runs(), 0); // it is not due yet
/// assert_eq!(queue.advance("1m").await?.expect_ok().completed, 1);
/// refute_enqueued!(queue, Greet { .. });
/// # Ok(()) }
/// ```
#[must_use]
pub struct TestQueue<C: Lent> {
    on: C,
    runner: Runner,
}

impl<'t, DB: TestDatabase> TestQueue<Within<'t, DB>> {
    /// A queue inside an open transaction. Roll it back at the end of the test, or just drop it. Dereferences to the
    /// connection, for the code under test. Does no I/O.
    ///
    /// Handlers do not see what the transaction has written: they have connections of their own. So none of them can
    /// call [`complete_in`](crate::JobContext::complete_in) or take a [`Tx`](crate::Tx) here.
    pub fn within(tx: &'t mut Transaction<'_, DB>) -> Self {
        let (store, requests) = DB::lent();
        Self { on: Within { conn: &mut **tx, requests }, runner: Runner::new(store) }
    }
}

impl TestQueue<OnPool> {
    /// A queue on a database or schema that no other test uses. Does no I/O.
    pub fn new<DB: TestDatabase>(pool: &Pool<DB>) -> Self {
        let mut runner = Runner::new(DB::of(pool));
        let pool = WorkerPool { pool: pool.clone(), turns: DB::turns(pool) };
        runner.states.insert(TypeId::of::<WorkerPool<DB>>(), Arc::new(pool));
        Self { on: OnPool(()), runner }
    }
}

impl<C: Lent> TestQueue<C> {
    /// Gives the handlers a [`State`](crate::State), as [`WorkerBuilder::state`](crate::WorkerBuilder::state) does.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.runner.states.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Adds a job type that is not linked in by [`#[job]`](crate::job), as
    /// [`WorkerBuilder::register`](crate::WorkerBuilder::register) does.
    pub fn register<J: Job>(mut self) -> Self {
        self.runner.registered.push(JobDefinition::of::<J>());
        self
    }

    /// Lets the schedules fire, those that the code of the test binary declares and those in the database: in
    /// [`drain`](Self::drain) what is due, and in [`advance`](Self::advance) each tick at its time. Without this call
    /// they do not fire, so that a schedule disturbs no other test.
    ///
    /// ```standalone_crate
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::job;
    /// use queue::schedule::Schedule;
    /// use queue::testing::TestQueue;
    ///
    /// #[job]
    /// async fn report() {}
    ///
    /// Admin::new(&pool).schedule("nightly", Schedule::cron("@daily")?, Report {}).await?;
    /// let mut queue = TestQueue::new(&pool).schedules();
    /// assert_eq!(queue.advance("7d").await?.expect_ok().completed, 7);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "schedules")]
    pub fn schedules(mut self) -> Self {
        self.runner.ticking = Some(runner::Ticking::new(None));
        self
    }

    /// [`schedules`](Self::schedules) in a test that begins at `start`, so that it does not depend on when it runs. No
    /// tick before `start` is missed.
    ///
    /// Only schedules know this time. [`JobContext::tick`](crate::JobContext::tick) tells it to a handler. The clocks
    /// of the database and of the handlers stay as they are.
    ///
    /// ```standalone_crate
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::job;
    /// use queue::schedule::Schedule;
    /// use queue::testing::TestQueue;
    ///
    /// #[job]
    /// async fn report() {}
    ///
    /// Admin::new(&pool).schedule("nightly", Schedule::cron("30 2 * * * Europe/Berlin")?, Report {}).await?;
    /// let mut queue = TestQueue::new(&pool).schedules_from("2026-03-28T12:00:00Z".parse()?);
    /// // in this night, clocks go from 2:00 to 3:00
    /// assert_eq!(queue.advance("12h").await?.expect_ok().completed, 0);
    /// assert_eq!(queue.advance("1h").await?.expect_ok().completed, 1);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "schedules")]
    pub fn schedules_from(mut self, start: chrono::DateTime<chrono::Utc>) -> Self {
        self.runner.ticking = Some(runner::Ticking::new(Some(start)));
        self
    }

    /// Runs every job that is due, in order, until none is. With [`new`](TestQueue::new), that includes jobs that the
    /// handlers enqueue.
    ///
    /// # Errors
    /// [`Error::Config`] if a job lacks its state, or if the jobs never come to an end. A failed job is not an error.
    pub async fn drain(&mut self) -> Result<Drained, Error> {
        let Self { on, runner } = self;
        let mut drained = Drained::default();
        on.serve(runner.drain(&mut drained)).await?;
        Ok(drained)
    }

    /// Lets time pass: `"90s"`, `"1h 30m"`, `"2d"` or a [`Duration`]. It stops at each moment at which
    /// a job falls due, after a delay or for a retry, and runs the job.
    ///
    /// The clock itself does not move. Instead, the times of the waiting jobs move into the past.
    ///
    /// # Errors
    /// As for [`drain`](Self::drain).
    ///
    /// # Panics
    /// If the text is not a duration.
    pub async fn advance(&mut self, by: impl IntoDuration) -> Result<Drained, Error> {
        let Self { on, runner } = self;
        let mut left = by.into_duration() + SLACK;
        let work = async {
            let mut all = Drained::default();
            loop {
                runner.drain(&mut all).await?;
                #[cfg(feature = "schedules")]
                while let Some(step) = runner.many_ticks(left, &mut all).await? {
                    left = left.saturating_sub(step);
                }
                let Some(step) = runner.step(left).await? else { return Ok(all) };
                left = left.saturating_sub(step);
            }
        };
        on.serve(work).await
    }

    /// Runs one attempt of a job that has no row: its arguments through JSON and back, then the handler. It is the
    /// first attempt.
    ///
    /// # Errors
    /// [`Error::Config`] if the job lacks its state, [`Error::Payload`] if its arguments do not serialize.
    pub async fn perform<J: Job>(&mut self, job: &J) -> Result<Outcome, Error> {
        let Self { on, runner } = self;
        on.serve(runner.perform(job)).await
    }

    /// The worker of the next attempt of [`drain`](Self::drain) or [`advance`](Self::advance) dies. The attempt runs to
    /// its return, and its end is not recorded. So the job runs again in the same call. Use it to test that a handler
    /// is idempotent.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// # use queue::testing::TestQueue;
    /// # use queue::{Job, job};
    /// #[job]
    /// async fn charge(order: u32) {}
    ///
    /// let mut queue = TestQueue::new(&pool);
    /// Charge::new(7).enqueue(&pool).await?;
    /// queue.crash_before_end();
    /// let drained = queue.drain().await?;
    /// assert_eq!((drained.lost, drained.completed), (1, 1));
    /// # Ok(()) }
    /// ```
    pub fn crash_before_end(&mut self) {
        self.runner.mishap = Some(Mishap::CrashBeforeEnd);
    }

    /// The next attempt of [`drain`](Self::drain) or [`advance`](Self::advance) loses its lease at its first pause: its
    /// future is dropped, and the job runs again. A handler that never pauses runs to its return, and its end is
    /// refused.
    pub fn lose_lease(&mut self) {
        self.runner.mishap = Some(Mishap::LoseLease);
    }

    pub(crate) async fn waiting<J: Job>(&mut self) -> Result<Vec<JobDetail>, Error> {
        let Self { on, runner } = self;
        on.serve(runner.waiting::<J>()).await
    }
}

impl<DB: TestDatabase> Deref for TestQueue<Within<'_, DB>> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.on.conn
    }
}

impl<DB: TestDatabase> DerefMut for TestQueue<Within<'_, DB>> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.on.conn
    }
}

impl<C: Lent> Debug for TestQueue<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestQueue").field("mishap", &self.runner.mishap).finish_non_exhaustive()
    }
}

/// A [`Duration`], or a text such as `"90s"`, `"1h 30m"` or `"2d"`.
pub trait IntoDuration {
    /// Converts it.
    ///
    /// # Panics
    /// If the text is not a duration.
    fn into_duration(self) -> Duration;
}

impl IntoDuration for Duration {
    fn into_duration(self) -> Duration {
        self
    }
}

impl IntoDuration for &str {
    #[track_caller]
    fn into_duration(self) -> Duration {
        duration::parse(&self.replace(' ', "")).unwrap_or_else(|why| panic!("{why}"))
    }
}

/// A waiting job, as [`assert_enqueued!`](crate::testing::assert_enqueued) found it. Dereferences to the job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EnqueuedJob<J> {
    /// The decoded job.
    pub job: J,
    /// Its row: id, queue, priority, due time and so on.
    pub row: JobRow,
}

impl<J> Deref for EnqueuedJob<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

/// At most this many jobs are printed.
const MOST_PRINTED: usize = 20;

/// The first waiting job that matches. Error: what there is instead. For
/// [`assert_enqueued!`](crate::testing::assert_enqueued).
#[doc(hidden)]
pub async fn find<J: Job + Debug, C: Lent>(
    queue: &mut TestQueue<C>,
    pattern: &str,
    matches: impl Fn(&J) -> bool,
) -> Result<EnqueuedJob<J>, String> {
    let (jobs, all) = decoded::<J, C>(queue).await?;
    let found = jobs.into_iter().find(|it| matches(&it.job));
    found.ok_or_else(|| format!("no waiting job matches `{pattern}`\n{all}"))
}

/// Error: a waiting job matches. For [`refute_enqueued!`](crate::testing::refute_enqueued).
#[doc(hidden)]
pub async fn refute<J: Job + Debug, C: Lent>(
    queue: &mut TestQueue<C>,
    pattern: &str,
    matches: impl Fn(&J) -> bool,
) -> Result<(), String> {
    let (jobs, all) = decoded::<J, C>(queue).await?;
    match jobs.iter().find(|it| matches(&it.job)) {
        Some(it) => Err(format!("job {} matches `{pattern}`, and none should\n{all}", it.row.id)),
        None => Ok(()),
    }
}

/// The waiting jobs of a kind, and all of them as text.
async fn decoded<J: Job + Debug, C: Lent>(queue: &mut TestQueue<C>) -> Result<(Vec<EnqueuedJob<J>>, String), String> {
    let rows = queue.waiting::<J>().await.map_err(|error| format!("the queue cannot be read: {error}"))?;
    let mut text = match rows.len() {
        0 => format!("no `{}` waits", J::KIND),
        1 => format!("1 `{}` waits:", J::KIND),
        count => format!("{count} `{}` wait:", J::KIND),
    };
    let more = rows.len().saturating_sub(MOST_PRINTED);
    let mut jobs = Vec::new();
    for (number, row) in rows.into_iter().enumerate() {
        let job = serde_json::from_str::<J>(&row.args);
        if number < MOST_PRINTED {
            let place = format!("queue {}, due {}, attempt {}", row.job.queue, row.job.run_at, row.job.attempt);
            let _ = match &job {
                Ok(job) => write!(text, "\n  {}: {job:?} ({place})", row.job.id),
                Err(error) => {
                    let secrets: Vec<_> = J::SECRETS.iter().map(ToString::to_string).collect();
                    let error = Values::of(&secrets, &row.args).redact(error.to_string());
                    let args = mask(&row.args, Some(&secrets));
                    write!(text, "\n  {}: {args} does not decode: {error} ({place})", row.job.id)
                }
            };
        }
        jobs.extend(job.ok().map(|job| EnqueuedJob { job, row: row.job }));
    }
    if more > 0 {
        let _ = write!(text, "\n  … and {more} more");
    }
    Ok((jobs, text))
}

/// Fails the test unless a matching job waits, and gives back the first one as an
/// [`EnqueuedJob`]. The job need not be due. Failed jobs that wait for their retry count, jobs
/// that have ended do not.
///
/// The second argument is a pattern of the job's struct, with an optional condition. All bindings are references. On
/// failure it prints the waiting jobs of that kind.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::testing::{TestQueue, assert_enqueued};
/// use queue::{Job, job};
///
/// #[job]
/// async fn send_email(to: String, urgent: bool) {}
///
/// let mut tx = pool.begin().await?;
/// let mut queue = TestQueue::within(&mut tx);
/// SendEmail::new("ada@example.org", true).enqueue(&mut *queue).await?;
///
/// let mail = assert_enqueued!(queue, SendEmail { to, urgent: true } if to.ends_with("example.org"));
/// assert_eq!(mail.to, "ada@example.org");
/// assert_eq!(mail.row.queue, "default");
/// # Ok(()) }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_enqueued {
    ($queue:expr, $job:path { $($fields:tt)* } $(if $guard:expr)? $(,)?) => {{
        let pattern = ::core::concat!(
            ::core::stringify!($job), " { ", ::core::stringify!($($fields)*), " }"
            $(, " if ", ::core::stringify!($guard))?
        );
        let matches = |job: &$job| ::core::matches!(job, $job { $($fields)* } $(if $guard)?);
        match $crate::testing::find::<$job, _>(&mut $queue, pattern, matches).await {
            ::core::result::Result::Ok(found) => found,
            ::core::result::Result::Err(report) => ::core::panic!("{report}"),
        }
    }};
}

/// Fails the test if a matching job waits. See [`assert_enqueued!`](crate::testing::assert_enqueued).
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::job;
/// use queue::testing::{TestQueue, refute_enqueued};
///
/// #[job]
/// async fn remind(user: u32) {}
///
/// let mut queue = TestQueue::new(&pool);
/// refute_enqueued!(queue, Remind { .. });
/// # Ok(()) }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __refute_enqueued {
    ($queue:expr, $job:path { $($fields:tt)* } $(if $guard:expr)? $(,)?) => {{
        let pattern = ::core::concat!(
            ::core::stringify!($job), " { ", ::core::stringify!($($fields)*), " }"
            $(, " if ", ::core::stringify!($guard))?
        );
        let matches = |job: &$job| ::core::matches!(job, $job { $($fields)* } $(if $guard)?);
        match $crate::testing::refute::<$job, _>(&mut $queue, pattern, matches).await {
            ::core::result::Result::Ok(()) => {}
            ::core::result::Result::Err(report) => ::core::panic!("{report}"),
        }
    }};
}
