//! What a job is: a serializable value with a kind, defaults and a handler.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, de::DeserializeOwned};

use crate::backoff::Backoff;
use crate::context::JobContext;
use crate::enqueue::Enqueue;
use crate::enqueue::target::Target;
use crate::error::Error;
use crate::outcome::JobError;

/// The number of a job: unique within one database. The number of a job that was committed is never used again. (SQLite
/// gives that of an enqueue that was rolled back to the next one.)
///
/// ```
/// let id = queue::JobId::from(42);
/// assert_eq!(id.to_string(), "42");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct JobId(i64);

impl JobId {
    /// The number as it stands in the `id` column.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for JobId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl From<JobId> for i64 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for JobId {
    type Err = std::num::ParseIntError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

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
