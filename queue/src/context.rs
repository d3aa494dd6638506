//! What a handler knows about its attempt.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::future::IntoFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::error::Error;
use crate::metadata::Metadata;
use crate::state::JobId;
use crate::store::values::{End, RunningRow};

/// The values given with [`WorkerBuilder::state`](crate::WorkerBuilder::state), by type.
pub(crate) type States = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// The attempt that a handler runs. Cheap to clone.
///
/// ```
/// use queue::{JobContext, JobError, job};
///
/// #[job]
/// async fn import(ctx: JobContext, pages: u32) -> Result<(), JobError> {
///     println!("job {} attempt {} of {}", ctx.id(), ctx.attempt(), ctx.max_attempts());
///     for page in 0..pages {
///         if ctx.cancelled().is_cancelled() {
///             return Err(JobError::cancel(format!("stopped before page {page}")));
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct JobContext(Arc<ContextData>);

struct ContextData {
    parts: ContextParts,
    /// The handler completes the job itself, or has begun to.
    completes: AtomicBool,
    extensions: Extensions,
    /// The tick, once it was read.
    #[cfg(feature = "schedules")]
    tick: tokio::sync::OnceCell<Option<Tick>>,
}

/// What a [`JobContext`] is made of.
#[derive(Clone)]
pub(crate) struct ContextParts {
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) kind: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) enqueued_at: DateTime<Utc>,
    pub(crate) meta: Metadata,
    pub(crate) cancelled: Cancellation,
    pub(crate) states: Arc<States>,
    pub(crate) row: Row,
    #[cfg(feature = "schedules")]
    pub(crate) ticks: Ticks,
}

/// The row of a context's job.
#[derive(Clone)]
pub(crate) enum Row {
    /// There is none: a test calls the handler.
    None,
    /// It is in a transaction of a test's.
    #[cfg(feature = "testing")]
    Lent,
    /// The attempt's.
    Own(Arc<dyn OwnRow>),
}

/// The row of an attempt's own job, for a handler that completes the job itself.
pub(crate) trait OwnRow: Send + Sync {
    /// The name of the worker's engine.
    fn engine(&self) -> &'static str;
    fn row(&self) -> RunningRow;
    /// The end of the attempt, if it completed the job now.
    fn completed(&self, result: Option<String>) -> End;
    /// The worker knows that it has lost its lease.
    fn is_lost(&self) -> bool;
    /// To be called before the handler locks the row. No statement for several jobs that begins later waits for that
    /// lock. One that is under way gets a second to end, and none on SQLite.
    fn lock_soon(&self) -> BoxFuture<'_, ()>;
    /// Asks the worker's own database whether this attempt is current. Waits for no lock.
    fn is_held(&self) -> BoxFuture<'_, Result<bool, Error>>;
}

/// The tick of a schedule that a job stands for. See [`JobContext::tick`].
#[cfg(feature = "schedules")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The schedule's name.
    pub schedule: String,
    /// When the job was due by its schedule. If somebody fired it by hand, when that was.
    pub at: DateTime<Utc>,
    /// Somebody fired it by hand.
    pub by_hand: bool,
}

/// Where a context finds its job's tick.
#[cfg(feature = "schedules")]
#[derive(Clone, Default)]
pub(crate) enum Ticks {
    /// The job has none.
    #[default]
    None,
    /// Said by a test.
    #[cfg(feature = "testing")]
    Told(Tick),
    Asked(Arc<dyn Fn() -> BoxFuture<'static, Result<Option<Tick>, Error>> + Send + Sync>),
}

impl JobContext {
    pub(crate) fn new(parts: ContextParts) -> Self {
        Self(Arc::new(ContextData {
            parts,
            completes: AtomicBool::new(false),
            extensions: Extensions::default(),
            #[cfg(feature = "schedules")]
            tick: tokio::sync::OnceCell::new(),
        }))
    }

    /// A context to call a handler directly in a test: the first and only attempt of job 1. Its token fires when the
    /// test calls `ctx.cancelled().cancel()`.
    ///
    /// ```
    /// # #[tokio::main] async fn main() {
    /// use queue::{JobContext, job};
    ///
    /// #[job]
    /// async fn count(ctx: JobContext, to: u32) -> Result<u32, queue::JobError> {
    ///     Ok(to * ctx.attempt())
    /// }
    ///
    /// assert_eq!(count(JobContext::for_test(), 7).await.unwrap(), 7);
    /// assert_eq!(count(JobContext::for_test().with_attempt(2, 3), 7).await.unwrap(), 14);
    /// # }
    /// ```
    #[cfg(feature = "testing")]
    pub fn for_test() -> Self {
        Self::new(ContextParts {
            id: JobId::from(1),
            attempt: 1,
            max_attempts: 1,
            kind: Arc::from("test"),
            queue: Arc::from("default"),
            enqueued_at: Utc::now(),
            meta: Metadata::NONE,
            cancelled: Cancellation(CancellationToken::new()),
            states: Arc::default(),
            row: Row::None,
            #[cfg(feature = "schedules")]
            ticks: Ticks::None,
        })
    }

    /// The same context for another attempt. For tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_attempt(&self, attempt: u32, max_attempts: u32) -> Self {
        Self::new(ContextParts { attempt, max_attempts, ..self.0.parts.clone() })
    }

    /// The same context for a job with this metadata as well. For tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_meta(&self, name: impl Into<String>, value: impl ToString) -> Self {
        let mut meta = self.meta().clone();
        meta.insert(name.into(), value.to_string());
        Self::new(ContextParts { meta: meta.into(), ..self.0.parts.clone() })
    }

    /// The same context for the job of a tick. For tests.
    #[cfg(all(feature = "testing", feature = "schedules"))]
    #[must_use]
    pub fn with_tick(&self, schedule: impl Into<String>, at: DateTime<Utc>) -> Self {
        let tick = Tick { schedule: schedule.into(), at, by_hand: false };
        Self::new(ContextParts { ticks: Ticks::Told(tick), ..self.0.parts.clone() })
    }

    /// The job's number.
    pub fn id(&self) -> JobId {
        self.0.parts.id
    }

    /// The number of this attempt; 1 is the first. Snoozes and releases do not count.
    pub fn attempt(&self) -> u32 {
        self.0.parts.attempt
    }

    /// How many attempts the job has in all: its retries plus one.
    pub fn max_attempts(&self) -> u32 {
        self.0.parts.max_attempts
    }

    /// The job's kind as stored in its row: an alias, if it was enqueued under one.
    pub fn kind(&self) -> &str {
        &self.0.parts.kind
    }

    /// The queue that the job waited in.
    pub fn queue(&self) -> &str {
        &self.0.parts.queue
    }

    /// When the job was enqueued, by the database's clock.
    pub fn enqueued_at(&self) -> DateTime<Utc> {
        self.0.parts.enqueued_at
    }

    /// What was said of the job beside its arguments, by name: see [`Enqueue::meta`](crate::Enqueue::meta). The jobs
    /// that the handler enqueues get it by themselves. A task that it spawns hands nothing on: there, say it with
    /// [`meta`](crate::Job::meta).
    pub fn meta(&self) -> &BTreeMap<String, String> {
        self.0.parts.meta.map()
    }

    /// Fires when the attempt must end early: its timeout passed, somebody cancelled the job, the worker lost its
    /// lease, or it shuts down and its grace period is over. A handler that ignores this is dropped after the
    /// [`cancel_grace`](crate::WorkerBuilder::cancel_grace). After a lost lease it is dropped at once, because another
    /// worker may have the job by now.
    pub fn cancelled(&self) -> &Cancellation {
        &self.0.parts.cancelled
    }

    /// What the [wrappers](crate::WorkerBuilder::wrap) of the worker have passed to each other and to this handler.
    ///
    /// ```
    /// use queue::{JobContext, JobError, job};
    ///
    /// #[derive(Clone)]
    /// struct Tenant(String);
    ///
    /// #[job]
    /// async fn bill(ctx: JobContext, order: i64) -> Result<(), JobError> {
    ///     let Tenant(tenant) = ctx.extensions().get().ok_or("no wrapper sets the tenant")?;
    ///     println!("{tenant}: {order}");
    ///     Ok(())
    /// }
    /// ```
    pub fn extensions(&self) -> &Extensions {
        &self.0.extensions
    }

    /// The tick of a schedule that this job stands for, so that a late run still reports the right day. `None`: no
    /// schedule enqueued the job. The first call reads the database, on a connection of the worker's.
    ///
    /// ```
    /// use queue::{JobContext, job};
    ///
    /// #[job]
    /// async fn daily_report(ctx: JobContext) -> Result<(), queue::JobError> {
    ///     let day = ctx.tick().await?.map_or(ctx.enqueued_at(), |tick| tick.at);
    ///     println!("the report of {}", day.date_naive());
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// # Cancellation
    /// Safe to drop.
    #[cfg(feature = "schedules")]
    pub async fn tick(&self) -> Result<Option<Tick>, Error> {
        match &self.0.parts.ticks {
            Ticks::None => Ok(None),
            #[cfg(feature = "testing")]
            Ticks::Told(tick) => Ok(Some(tick.clone())),
            Ticks::Asked(ask) => self.0.tick.get_or_try_init(|| ask()).await.cloned(),
        }
    }

    pub(crate) fn row(&self) -> &Row {
        &self.0.parts.row
    }

    /// The handler begins to complete the job itself. False: it has done so before.
    pub(crate) fn begins_to_complete(&self) -> bool {
        !self.0.completes.swap(true, Ordering::AcqRel)
    }

    /// That failed.
    pub(crate) fn does_not_complete(&self) {
        self.0.completes.store(false, Ordering::Release);
    }

    /// Whether the handler has completed the job itself. It may have been dropped in the middle of that, and it may not
    /// have committed.
    pub(crate) fn completes(&self) -> bool {
        self.0.completes.load(Ordering::Acquire)
    }

    pub(crate) fn state<T: Clone + 'static>(&self) -> Option<T> {
        self.0.parts.states.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }
}

impl std::fmt::Debug for JobContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobContext")
            .field("id", &self.0.parts.id)
            .field("kind", &self.0.parts.kind)
            .field("queue", &self.0.parts.queue)
            .field("attempt", &self.0.parts.attempt)
            .field("max_attempts", &self.0.parts.max_attempts)
            .finish_non_exhaustive()
    }
}

/// The cancellation token of an attempt: a [`CancellationToken`] that can also be awaited.
///
/// ```
/// # async fn work() {}
/// # async fn example(ctx: queue::JobContext) {
/// tokio::select! {
///     () = ctx.cancelled().clone() => println!("told to stop"),
///     () = work() => println!("done"),
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Cancellation(pub(crate) CancellationToken);

impl Deref for Cancellation {
    type Target = CancellationToken;

    fn deref(&self) -> &CancellationToken {
        &self.0
    }
}

impl IntoFuture for Cancellation {
    type Output = ();
    type IntoFuture = Pin<Box<WaitForCancellationFutureOwned>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.cancelled_owned())
    }
}

impl IntoFuture for &Cancellation {
    type Output = ();
    type IntoFuture = Pin<Box<WaitForCancellationFutureOwned>>;

    fn into_future(self) -> Self::IntoFuture {
        self.clone().into_future()
    }
}

/// Values that wrappers pass to each other and to the handler, one of each type.
///
/// ```
/// use queue::middleware::Extensions;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Tenant(u32);
///
/// let extensions = Extensions::default();
/// extensions.insert(Tenant(7));
/// assert_eq!(extensions.get::<Tenant>(), Some(Tenant(7)));
/// assert_eq!(extensions.get::<String>(), None);
/// ```
#[derive(Default)]
pub struct Extensions(Mutex<HashMap<TypeId, Box<dyn Any + Send>>>);

impl Extensions {
    /// Keeps a value for the rest of the attempt. It replaces one of the same type.
    pub fn insert<T: Clone + Send + 'static>(&self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(TypeId::of::<T>(), Box::new(value));
    }

    /// A clone of the value of this type, if there is one.
    pub fn get<T: Clone + Send + 'static>(&self) -> Option<T> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }
}

/// A handler's parameter with a value that was given to [`WorkerBuilder::state`](crate::WorkerBuilder::state).
///
/// ```
/// use queue::{State, job};
///
/// #[derive(Clone)]
/// struct Mailer;
///
/// #[job]
/// async fn greet(State(mailer): State<Mailer>, to: String) {
///     let _ = (mailer, to);
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
