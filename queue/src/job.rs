//! What a job is: a serializable value with a kind, defaults and a handler; and how it is enqueued.

use std::borrow::Cow;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, de::DeserializeOwned};

use crate::backoff::Backoff;
use crate::context::JobContext;
use crate::enqueue::target::Target;
use crate::error::{Doing, Error};
use crate::finite;
use crate::id::JobId;
use crate::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH, check_name, depth, micros};
use crate::outcome::JobError;
use crate::store::values::NewJob;

/// All times before this are as good as now, and every engine can store this one.
const LONG_AGO: i64 = 946_684_800_000_000; // 2000-01-01
/// The last year that every engine can store.
const YEAR_9999: i64 = 253_370_764_800_000_000;

/// A unit of work that can be written to the database and run later, somewhere else.
///
/// [`#[job]`](crate::job) writes the implementation from an async function; by hand it is only needed for types that the
/// macro cannot make (generic ones, say), and such a type is registered with
/// [`WorkerBuilder::register`](crate::WorkerBuilder::register).
///
/// Bring the trait into scope (`use queue::Job;`) to enqueue:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use queue::{Job, job};
///
/// #[job]
/// async fn greet(name: String) {
///     println!("Hello, {name}!");
/// }
///
/// # let pool = queue::__doctest::pool().await;
/// Greet::new("Ada").enqueue(&pool).await?;
/// Greet::new("Grace").after(Duration::from_secs(60)).priority(-1).enqueue(&pool).await?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "not a job",
    note = "annotate the function with `#[queue::job]` and use the struct that it generates (`send_email` gives `SendEmail`)"
)]
pub trait Job: Serialize + DeserializeOwned + Send + Sync + Sized + 'static {
    /// The name in the `kind` column, by which a worker finds the handler. At most 128 bytes.
    const KIND: &'static str;
    /// Former kinds: rows enqueued under these names are run by this job too.
    const ALIASES: &'static [&'static str] = &[];
    /// The queue, where the enqueue names none. At most 128 bytes.
    const QUEUE: &'static str = "default";
    /// The priority, where the enqueue names none: smaller runs first.
    const PRIORITY: i16 = 0;
    /// How often a failed job is tried again, where the enqueue names no number: 3 retries are 4 attempts.
    const MAX_RETRIES: u32 = 20;
    /// How long one attempt may run; without it, as long as its worker lives.
    const TIMEOUT: Option<Duration> = None;
    /// How long to wait after a failure.
    const BACKOFF: Backoff = Backoff::DEFAULT;

    /// What a successful attempt leaves behind, kept as JSON in the history.
    type Output: Serialize + Send + 'static;

    /// Runs one attempt. Called by workers only.
    ///
    /// # Cancellation
    /// The future is dropped when the attempt outlives its timeout or is cancelled, and its token
    /// ([`JobContext::cancelled`]) was ignored for the worker's grace period; at once when it loses its lease.
    fn run(self, ctx: JobContext) -> impl Future<Output = Result<Self::Output, JobError>> + Send;

    /// The [`State`](crate::State) types that [`run`](Self::run) takes from the context, so that a worker that lacks one
    /// refuses to start.
    fn requires() -> Vec<StateType> {
        Vec::new()
    }

    /// Writes the job with its defaults. See [`Enqueue::enqueue`].
    fn enqueue<T: Target>(self, target: T) -> impl Future<Output = Result<JobId, Error>> + Send {
        Enqueue::new(self).enqueue(target)
    }

    /// To be run no earlier than `delay` from now, by the database's clock. See [`Enqueue::after`].
    fn after(self, delay: Duration) -> Enqueue<Self> {
        Enqueue::new(self).after(delay)
    }

    /// To be run no earlier than `time`. See [`Enqueue::at`].
    fn at(self, time: DateTime<Utc>) -> Enqueue<Self> {
        Enqueue::new(self).at(time)
    }

    /// With another priority; smaller runs first. See [`Enqueue::priority`].
    fn priority(self, priority: i16) -> Enqueue<Self> {
        Enqueue::new(self).priority(priority)
    }

    /// Into another queue. See [`Enqueue::queue`].
    fn queue(self, queue: impl Into<String>) -> Enqueue<Self> {
        Enqueue::new(self).queue(queue)
    }

    /// With another number of retries. See [`Enqueue::max_retries`].
    fn max_retries(self, retries: u32) -> Enqueue<Self> {
        Enqueue::new(self).max_retries(retries)
    }
}

/// A type that a job takes through [`State`](crate::State).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateType {
    pub(crate) id: std::any::TypeId,
    pub(crate) name: &'static str,
}

impl StateType {
    /// Describes `T`.
    ///
    /// ```
    /// let needed = queue::StateType::of::<String>();
    /// assert_eq!(needed, queue::StateType::of::<String>());
    /// ```
    pub fn of<T: Clone + Send + Sync + 'static>() -> Self {
        Self { id: std::any::TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }
}

/// A job with options, to be enqueued. Made by the methods of [`Job`].
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = queue::__doctest::pool().await;
/// use std::time::Duration;
/// use queue::{Job, job};
///
/// #[job]
/// async fn remind(user: i64) {
///     println!("reminding {user}");
/// }
///
/// let mut tx = pool.begin().await?;
/// Remind::new(7).after(Duration::from_secs(3600)).queue("mail").max_retries(2).enqueue(&mut tx).await?;
/// tx.commit().await?; // only now can a worker see it
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a job is written only by `.enqueue(…)`"]
pub struct Enqueue<J> {
    job: J,
    options: Options,
}

#[derive(Debug, Clone, Default)]
struct Options {
    due: Due,
    priority: Option<i16>,
    queue: Option<String>,
    max_retries: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Due {
    #[default]
    Now,
    After(Duration),
    At(DateTime<Utc>),
}

impl<J: Job> Enqueue<J> {
    pub(crate) fn new(job: J) -> Self {
        Self { job, options: Options::default() }
    }

    /// Not before `delay` has passed, counted by the database's clock from the enqueue. At most 100 years. The last of
    /// `after` and [`at`](Self::at) counts.
    pub fn after(mut self, delay: Duration) -> Self {
        self.options.due = Due::After(delay);
        self
    }

    /// Not before `time`, by the database's clock; a time in the past means now, ahead of younger jobs.
    pub fn at(mut self, time: DateTime<Utc>) -> Self {
        self.options.due = Due::At(time);
        self
    }

    /// Smaller runs first; the job's own priority (0 unless it says otherwise) by default.
    pub fn priority(mut self, priority: i16) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Another queue than the job's own. At most 128 bytes.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Another number of retries than the job's own: 0 means a single attempt.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// Writes the job. `target` is a pool (`&PgPool`, `&MySqlPool`, `&SqlitePool`), or a `&mut` connection or transaction:
    /// then the job is part of what that transaction commits or rolls back, and no worker sees it before the commit.
    ///
    /// On PostgreSQL a process that only ever enqueues in transactions should make an [`Admin`](crate::Admin) of its pool once,
    /// so that it knows where to wake workers after the commit; without that an idle one looks every 2.5 seconds.
    ///
    /// # Errors
    /// [`Error::TooLarge`] over [`MAX_ARGS_BYTES`], [`Error::TooDeep`] over [`MAX_ARGS_DEPTH`], [`Error::Payload`] when the arguments do not serialize,
    /// [`Error::Config`] for an unusable queue name, [`Error::Database`]. All name the kind.
    ///
    /// # Cancellation
    /// Safe to drop; whether the job was written is then unknown, and the pool stays healthy. After a lost connection,
    /// too, the job may or may not have been written: nothing is retried, so that nothing is enqueued twice.
    pub async fn enqueue<T: Target>(self, target: T) -> Result<JobId, Error> {
        let job = self.into_row()?;
        let ids = target.write(vec![job]).await.doing(format!("cannot enqueue `{}`", J::KIND))?;
        ids.first().map(|id| JobId::from(*id)).ok_or_else(|| Error::Database {
            doing: format!("cannot enqueue `{}`", J::KIND),
            source: sqlx::Error::RowNotFound,
        })
    }

    fn into_row(self) -> Result<NewJob, Error> {
        let Options { due, priority, queue, max_retries } = self.options;
        let refused = |why| Error::config(format!("cannot enqueue `{}`: {why}", J::KIND.escape_debug()));
        check_name("kind", J::KIND).map_err(refused)?;
        let args = serde_json::to_string(&self.job).map_err(|source| Error::Payload { kind: J::KIND, source })?;
        // a number that is not finite becomes `null`
        if args.contains("null") {
            finite::check(&self.job).map_err(|source| Error::Payload { kind: J::KIND, source })?;
        }
        if args.len() > MAX_ARGS_BYTES {
            return Err(Error::TooLarge { kind: J::KIND, size: args.len(), limit: MAX_ARGS_BYTES });
        }
        match depth(&args) {
            0..=MAX_ARGS_DEPTH => {}
            depth => return Err(Error::TooDeep { kind: J::KIND, depth, limit: MAX_ARGS_DEPTH }),
        }
        let queue = queue.map_or(Cow::Borrowed(J::QUEUE), Cow::Owned);
        check_name("queue", &queue).map_err(refused)?;
        let (delay_us, run_at_us) = match due {
            Due::Now => (None, None),
            Due::After(delay) => (Some(micros(delay)), None),
            Due::At(time) => (None, Some(time.timestamp_micros().clamp(LONG_AGO, YEAR_9999))),
        };
        Ok(NewJob {
            kind: J::KIND,
            queue,
            priority: priority.unwrap_or(J::PRIORITY),
            max_retries: i32::try_from(max_retries.unwrap_or(J::MAX_RETRIES)).unwrap_or(i32::MAX),
            delay_us,
            run_at_us,
            args,
        })
    }
}

impl<J: Job> From<J> for Enqueue<J> {
    fn from(job: J) -> Self {
        Self::new(job)
    }
}

/// Writes many jobs of one type in a handful of round trips: all of them or none. Returns their numbers in the order given.
///
/// Each item is a job, or a job with options. A large batch is several statements in one transaction (behind a savepoint when
/// `target` is in a transaction already): of at most 1,000 jobs on MySQL and MariaDB, 5,000 on SQLite, 64 MiB on PostgreSQL.
///
/// # Errors
/// As [`Enqueue::enqueue`]; one unusable job refuses the whole batch before anything is written.
///
/// # Cancellation
/// Through a pool as [`Enqueue::enqueue`]: all or none are written. In a transaction of yours a batch that is dropped midway may
/// have written a part: roll back, to a savepoint or altogether. What you wrote before it stays as it was. (sqlx does not bear
/// that on MySQL and MariaDB while a statement is being prepared: the connection may then answer nothing any more.)
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = queue::__doctest::pool().await;
/// # use queue::job;
/// #[job]
/// async fn resize(image: i64) {
///     println!("resizing {image}");
/// }
///
/// let ids = queue::enqueue_all(&pool, (0..1000).map(|image| Resize { image })).await?;
/// assert_eq!(ids.len(), 1000);
/// # Ok(()) }
/// ```
pub async fn enqueue_all<J, T, I>(target: T, jobs: I) -> Result<Vec<JobId>, Error>
where
    J: Job,
    T: Target,
    I: IntoIterator,
    I::Item: Into<Enqueue<J>>,
{
    let rows = jobs.into_iter().map(|job| job.into().into_row()).collect::<Result<Vec<_>, _>>()?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let doing = format!("cannot enqueue {} `{}`", rows.len(), J::KIND);
    let ids = target.write(rows).await.doing(doing)?;
    Ok(ids.into_iter().map(JobId::from).collect())
}
